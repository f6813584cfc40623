from licet.streams import SpendMemory, SpendPosition


def at(last: int, log: int = 0) -> SpendPosition:
    return SpendPosition(last, log, 0, 0)


def test_a_stream_that_grows_is_safe() -> None:
    memory = SpendMemory()
    assert all(memory.look(at(last, last - 1), 1) for last in (1, 5, 5, 9))
    assert memory.floor == 9


def test_fewer_spends_than_before_stop_everybody_until_the_generation_grows() -> None:
    memory = SpendMemory()
    assert memory.look(at(9), 1)
    assert not memory.look(at(8), 1)
    assert not memory.look(at(20), 1)  # it has grown past the floor again: what it lost is still lost
    assert memory.look(at(3, 3), 2)
    assert memory.floor == 3


def test_a_log_that_knows_more_spends_than_the_stream_shows_it_to_a_new_decider() -> None:
    assert not SpendMemory().look(at(5, log=7), 1)
    assert SpendMemory().look(at(7, log=7), 1)


def test_what_the_audit_store_remembers_counts_from_the_first_look() -> None:
    assert not SpendMemory(remembered=10).look(at(9), 3)
    assert SpendMemory(remembered=10).look(at(10), 3)
