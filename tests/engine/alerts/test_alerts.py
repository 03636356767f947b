"""When messages about alerts are sent: begin, end, repetition, and alerts that flap."""

from engine.alerts.alerts import AGAIN_SECONDS, MAX_TEXT, REPEAT_SECONDS, Alert, Alerts


class Sent:
    """Alerts with a clock that the test sets, and the texts of the messages; `.` marks an end."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.messages: list[Alert] = []
        self.alerts = Alerts(
            self.messages.append, lambda project: f"https://{project}.test", lambda: self.now
        )

    def texts(self) -> list[str]:
        texts = [alert.text + "." * bool(alert.until) for alert in self.messages]
        self.messages.clear()
        return texts


def test_alert_is_sent_once_at_its_begin_and_once_at_its_end() -> None:
    sent = Sent()
    for text in ("1 MiB free", "0 MiB free"):
        sent.alerts.begin("disk", "", text)
        sent.alerts.check()
    assert sent.texts() == ["1 MiB free"]
    (active,) = sent.alerts.active()
    assert active.text == "0 MiB free"
    sent.alerts.end("disk", "")
    sent.alerts.end("disk", "")
    assert (sent.texts(), sent.alerts.active()) == (["0 MiB free."], [])


def test_alert_that_lasts_is_repeated_once_a_day() -> None:
    sent = Sent()
    for _ in range(49):
        sent.alerts.begin("certificate", "", "13 days")
        sent.alerts.check()
        sent.now += REPEAT_SECONDS / 24
    assert sent.texts() == ["13 days"] * 3


def test_alert_that_flaps_is_sent_once_an_hour_and_without_ends_of_unsent_begins() -> None:
    sent = Sent()
    for _ in range(119):
        sent.alerts.begin("failure-rate", "shop", "failing")
        sent.now += 30
        sent.alerts.end("failure-rate", "shop")
        sent.alerts.check()
        sent.now += 30
    assert sent.texts() == ["failing", "failing.", "failing", "failing."]


def test_alert_that_begins_again_within_the_hour_is_sent_when_the_hour_is_over() -> None:
    sent = Sent()
    sent.alerts.begin("memory", "", "full")
    sent.alerts.end("memory", "")
    sent.now += 60
    sent.alerts.begin("memory", "", "full again")
    assert sent.texts() == ["full", "full."]
    sent.now += AGAIN_SECONDS
    sent.alerts.check()
    assert sent.texts() == ["full again"]


def test_alerts_of_projects_and_nodes_are_separate_and_forgotten_after_an_hour() -> None:
    sent = Sent()
    for project in ("shop", "blog"):
        sent.alerts.begin("failure-rate", project, project)
    for node in ("n1", "n2"):
        sent.alerts.begin("node-lost", "", node, subject=node)
    assert sent.texts() == ["shop", "blog", "n1", "n2"]
    sent.alerts.end("node-lost", "", subject="n1")
    sent.now += AGAIN_SECONDS
    sent.alerts.check()
    assert [alert.text for alert in sent.alerts.active()] == ["shop", "blog", "n2"]
    sent.alerts.begin("node-lost", "", "n1", subject="n1")
    assert sent.texts() == ["n1.", "n1"]


def test_title_names_kind_project_and_end() -> None:
    sent = Sent()
    sent.alerts.begin("failure-rate", "shop", "failing")
    sent.alerts.end("failure-rate", "shop")
    sent.alerts.begin("disk", "", "full")
    titles = [alert.title for alert in sent.messages]
    assert titles == ["svc: failure-rate (shop)", "svc: failure-rate ended (shop)", "svc: disk"]
    assert [alert.project for alert in sent.messages] == ["shop", "shop", None]


def test_long_text_of_a_project_is_cut() -> None:
    sent = Sent()
    for _ in range(2):
        sent.alerts.begin("deploy-failed", "shop", "x" * 900_000)
        assert [len(alert.text) for alert in sent.alerts.active()] == [MAX_TEXT]
    assert [len(text) for text in sent.texts()] == [MAX_TEXT]


def test_text_with_surrogates_can_be_sent() -> None:
    sent = Sent()
    sent.alerts.begin("deploy-failed", "shop", "file \udcff.sql ü")
    assert sent.texts() == ["file ?.sql ü"]
