"""Aggregation of measurements into series."""

from engine.measurement import Measurement, MeasurementBatch, SeriesTable


def batch(*measurements: Measurement, time_ns: int = 1, resource: str = "web") -> MeasurementBatch:
    return MeasurementBatch(time_ns, resource, measurements)


def test_counters_add_up_and_gauges_are_replaced() -> None:
    table = SeriesTable()
    table.add(
        batch(Measurement("n", "counter", 2), Measurement("g", "gauge", 5), Measurement("u", "updown", 1))
    )
    table.add(batch(Measurement("n", "counter", 3), Measurement("g", "gauge", 4), time_ns=9))
    table.add(batch(Measurement("u", "updown", -1)))
    assert [each.value for each in table.series()] == [5, 4, 0]
    first = next(iter(table.series()))
    assert (first.since_ns, first.time_ns) == (1, 9)


def test_series_differ_by_resource_and_attributes() -> None:
    table = SeriesTable()
    table.add(batch(Measurement("n", "counter", 1), Measurement("n", "counter", 1, attributes=(("a", "b"),))))
    table.add(batch(Measurement("n", "counter", 1), resource="api"))
    assert len(list(table.series())) == 3


def test_histograms_add_up_until_their_bounds_change() -> None:
    table = SeriesTable()
    for counts, bounds in (((1, 2), (5.0,)), ((0, 1), (5.0,)), ((1, 0, 0), (5.0, 6.0))):
        changed = table.add(batch(Measurement("h", "histogram", 10, bounds=bounds, counts=counts)))
        (series,) = changed.values()
    assert (series.counts, series.value) == ((1, 0, 0), 10)


def test_series_above_the_limit_are_omitted_and_counted() -> None:
    table = SeriesTable(limit=2)
    names = ("a", "b", "c", "a", "d")
    changed = table.add(batch(*(Measurement(name, "counter", 1) for name in names)))
    assert [key[1] for key in changed] == ["a", "b"] and table.omitted == 2
