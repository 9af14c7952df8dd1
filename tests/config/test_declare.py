"""Declarations of options, and parsed values in the form that users pass."""

from thinconsumer.config import HostPort, OffsetResetPolicy
from thinconsumer.config.declare import Option, as_passed, section
from thinconsumer.config.kinds import Boolean


def test_a_section_declares_fields_with_the_option_as_metadata():
    kind = Boolean()
    field = section("Food")(kind, "Whether to eat.", True)
    assert field.default is True
    assert field.metadata["option"] == Option(kind, "Whether to eat.", True, "Food")


def test_servers_and_policies_become_text_again():
    assert as_passed((HostPort("a", 1), HostPort("::1", 2))) == "a:1,[::1]:2"
    assert as_passed(OffsetResetPolicy.parse("by_duration:PT1H")) == "by_duration:PT3600S"
    assert as_passed(()) == ()
    assert as_passed(7) == 7
