"""The parameters of swarm runs of ordered delivery."""

from lab.order_knobs import OrderKnobs


def test_a_seed_draws_the_same_parameters_again_and_another_one_others():
    assert OrderKnobs.draw(1) == OrderKnobs.draw(1)
    assert len({OrderKnobs.draw(seed) for seed in range(50)}) == 50


def test_a_hundred_seeds_have_each_protocol_and_each_kind_of_topic():
    drawn = [OrderKnobs.draw(seed) for seed in range(100)]
    assert {knobs.protocol for knobs in drawn} == {"classic", "consumer", "mixed"}
    for name in ("auto_commits", "compacted", "has_key_listener"):
        assert {getattr(knobs, name) for knobs in drawn} == {False, True}
