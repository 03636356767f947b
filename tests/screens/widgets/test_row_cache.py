from hypothesis import given
from hypothesis import strategies as st

from screens.widgets.rows import CHUNK_ROWS, PREFETCH_CHUNKS, FetchWindow, Row, RowCache


def rows(window: FetchWindow, word: str = "") -> list[Row]:
    return [Row((word, number), ()) for number in range(window.start, window.start + window.n)]


def fill(chunks: RowCache, word: str = "") -> list[tuple[int, int]]:
    """Fetch everything that is requested and return the fetched windows."""
    fetched = []
    while window := chunks.next_fetch():
        fetched.append((window.start, window.n))
        chunks.put(window, rows(window, word))
    return fetched


def test_next_fetch_order_is_visible_after_before() -> None:
    chunks = RowCache()
    chunks.request(9 * CHUNK_ROWS - 10, 9 * CHUNK_ROWS + 30, 100 * CHUNK_ROWS)
    more = PREFETCH_CHUNKS * CHUNK_ROWS
    assert fill(chunks) == [
        (8 * CHUNK_ROWS, 2 * CHUNK_ROWS),
        (10 * CHUNK_ROWS, more),
        (8 * CHUNK_ROWS - more, more),
    ]
    assert chunks.next_fetch() is None


def test_next_fetch_skips_cached_chunks() -> None:
    chunks = RowCache()
    chunks.request(5 * CHUNK_ROWS, 5 * CHUNK_ROWS + 30, 6 * CHUNK_ROWS)
    fill(chunks)
    chunks.request(0, 30, 6 * CHUNK_ROWS)
    assert fill(chunks) == [(0, CHUNK_ROWS)]


@given(st.lists(st.tuples(st.integers(0, 999_999), st.integers(1, 300)), max_size=40), st.integers(1, 8))
def test_cache_has_visible_rows_within_limit(moves: list[tuple[int, int]], limit: int) -> None:
    chunks = RowCache(limit)
    for first, page in moves:
        end = min(first + page, 1_000_000)
        chunks.request(first, end, 1_000_000)
        fill(chunks)
        assert [chunks.row(index) for index in range(first, end)] == [
            Row(("", i), ()) for i in range(first, end)
        ]
        assert len(chunks) <= max(limit, 8 + 2 * PREFETCH_CHUNKS)


def test_least_recently_used_chunks_are_evicted() -> None:
    chunks = RowCache(max_chunks=3 * PREFETCH_CHUNKS + 2)
    for chunk in (0, 30, 0, 60):
        chunks.request(chunk * CHUNK_ROWS, chunk * CHUNK_ROWS + 5, 100 * CHUNK_ROWS)
        fill(chunks)
    assert chunks.row(0) is not None and chunks.row(30 * CHUNK_ROWS) is None


def test_growing_last_chunk_fetches_only_new_rows() -> None:
    chunks = RowCache()
    chunks.request(0, 10, 50)
    assert fill(chunks) == [(0, 50)]
    chunks.request(0, 10, 60)
    assert fill(chunks) == [(50, 10)]
    chunks.request(40, 70, 120)
    assert fill(chunks) == [(60, 40), (100, 20)]


def test_invalidated_rows_stay_until_replaced() -> None:
    chunks = RowCache()
    chunks.request(0, 10, 50)
    fill(chunks, "old")
    chunks.invalidate()
    assert chunks.row(3) == Row(("old", 3), ())
    assert fill(chunks, "new") == [(0, 50)]
    assert chunks.row(3) == Row(("new", 3), ())


def test_rows_of_earlier_generation_are_dropped() -> None:
    chunks = RowCache()
    chunks.request(0, 10, 50)
    window = chunks.next_fetch()
    assert window
    chunks.clear()
    assert not chunks.put(window, rows(window, "old"))
    assert chunks.row(0) is None and fill(chunks) == [(0, 50)]


def test_failed_rows_are_fetched_after_next_request() -> None:
    chunks = RowCache()
    chunks.request(0, 10, 50)
    window = chunks.next_fetch()
    assert window
    chunks.mark_failed(window)
    chunks.request(0, 10, 50)
    assert chunks.next_fetch() is None
    chunks.request(0, 10, 51)
    assert chunks.next_fetch() is not None
