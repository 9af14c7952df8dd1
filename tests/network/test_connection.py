"""One connection: negotiation, order, deadlines, throttling, and an answer for everything whatever the peer does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinconsumer.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    SslAuthenticationFailedError,
    UnsupportedVersionError,
)
from thinconsumer.network.connection import ARRIVING_FACTOR, ARRIVING_GAP, LEAST_ANSWER_TIME, THROTTLE_MAX
from thinconsumer.network.negotiate import SOFTWARE_NAME, ApiVersionsCache
from thinconsumer.network.states import ConnectionState
from thinconsumer.support.timers import NEVER
from thinconsumer.wire.api_versions import ApiVersionsRequest
from thinconsumer.wire.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from thinconsumer.wire.list_offsets import ListOffsetsRequest
from thinconsumer.wire.metadata import MetadataRequest, MetadataResponse
from thinconsumer_testing.broker.wire.requests import encode_response

READY = ConnectionState.READY


# -- getting ready


def test_apiversions_is_the_first_request(bench):
    made = bench()
    assert made.write() == b""
    made.connection.connection_made(0.0)
    assert SOFTWARE_NAME.encode() in made.write()
    (header,) = made.written
    assert (header.api_key, header.api_version) == (ApiVersionsRequest.API_KEY, ApiVersionsRequest.VERSIONS[1])
    assert header.client_id == "me"
    made.reply(made.api_versions())
    assert made.connection.state is READY
    assert made.connection.was_ready


def test_a_version_that_one_broker_rejected_is_not_tried_at_the_next(bench):
    """Each rejection costs a round trip, and brokers of one cluster are mostly of one version."""
    settings = {"api_versions_cache": ApiVersionsCache()}
    for offered in ([ApiVersionsRequest.VERSIONS[1], 3], [3]):
        made = bench(**settings)
        made.connection.connection_made(0.0)
        for version in offered:
            made.write()
            assert made.written[0].api_version == version
            if version > 3:
                made.reply(made.api_versions({18: (0, 3)}, error_code=35), version=0)


def test_an_error_in_apiversions_ends_the_connection(bench):
    made = bench()
    made.connection.connection_made(0.0)
    made.reply(made.api_versions({}, error_code=42))
    assert made.connection.has_ended
    assert "INVALID_REQUEST" in str(made.connection.error)
    assert made.hangups == [made.connection]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_connection_that_has_ended_keeps_no_part_of_a_large_response(bench, is_closed):
    made = bench().reach(READY)
    made.send()
    made.write()
    head = (10_000_000).to_bytes(4, "big")
    made.connection.get_buffer()[:4] = head
    made.connection.buffer_updated(4, made.now)
    assert len(made.connection.get_buffer()) > 1_000_000
    if is_closed:
        made.connection.close(None)
    else:
        made.connection.connection_lost(None, made.now)
    assert len(made.connection.get_buffer()) < 1_000_000


@pytest.mark.parametrize(
    "state", [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING, ConnectionState.DISCONNECTED]
)
def test_sending_before_ready_is_a_bug(bench, state):
    made = bench().reach(state)
    assert not made.connection.can_send(0.0)
    with pytest.raises(IllegalStateError, match=state.value):
        made.send()


@pytest.mark.parametrize("state", [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING])
def test_the_transport_and_apiversions_each_have_the_setup_timeout(bench, state):
    """Once for the transport, once for what follows (KIP-601)."""
    made = bench(setup_timeout=10.0)
    made.now = 9.0
    if state is ConnectionState.NEGOTIATING:
        made.connection.connection_made(9.0)
    deadline = 10.0 if state is ConnectionState.CONNECTING else 19.0
    assert made.due() == deadline
    made.now = deadline - 0.1
    made.step()
    assert not made.connection.has_ended
    made.now = deadline
    made.step()
    assert made.connection.has_ended
    assert "timed out" in str(made.connection.error)
    assert made.due() == NEVER


@pytest.mark.parametrize("state", [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING])
def test_a_rejected_certificate_has_an_error_of_its_own(bench, state):
    """With TLS 1.3 the broker's rejection arrives after the handshake has ended on this side."""
    made = bench().reach(state)
    made.connection.connection_lost(KafkaConnectionError("kafka: no certificate", is_certificate_rejected=True), 0.0)
    assert isinstance(made.connection.error, SslAuthenticationFailedError)
    assert str(made.connection.error) == "kafka: no certificate"


def test_a_tls_alert_on_a_connection_that_worked_is_a_lost_connection(ready):
    """The broker has accepted the certificates once, so that another attempt can succeed."""
    ready.connection.connection_lost(KafkaConnectionError("kafka: alert", is_certificate_rejected=True), 0.0)
    assert type(ready.connection.error) is KafkaConnectionError


# -- requests and answers


def test_a_request_is_built_when_it_is_written_for_the_negotiated_version(ready, metadata):
    seen = []

    def build(version):
        seen.append(version)
        return MetadataRequest()

    request = ready.request(build=build)
    assert seen == []
    ready.send(request)
    assert seen == [MetadataRequest.VERSIONS[1]]
    ready.reply(metadata)
    answer = ready.answer_to(request)
    assert answer.response == metadata
    assert (answer.version, answer.node_id, answer.error) == (seen[0], 1, None)


@pytest.mark.parametrize(("highest", "version"), [(12, 12), (5, 5)])
def test_a_request_may_limit_its_version(ready, highest, version):
    ready.send(max_version=lambda: highest)
    ready.write()
    assert ready.written[0].api_version == version


def test_no_common_version_fails_that_request_only(ready, metadata):
    request = ready.send(min_version=99)
    assert isinstance(ready.answer_to(request).error, UnsupportedVersionError)
    assert ready.write() == b""
    other = ready.send()
    ready.reply(metadata)
    assert ready.answer_to(other).response is not None


def test_a_message_that_cannot_be_encoded_fails_that_request_only(ready):
    request = ready.send(api=ListOffsetsRequest, build=lambda version: ListOffsetsRequest(replica_id=2**40))
    assert isinstance(ready.answer_to(request).error, KafkaError)
    assert ready.connection.state is READY


@pytest.mark.parametrize("in_flight", [0, 1])
def test_an_exception_in_build_is_raised_and_the_request_is_answered(ready, metadata, in_flight):
    """The manager that sent it would otherwise wait for ever."""

    def build(version):
        raise ZeroDivisionError("bug")

    others = [ready.send() for _ in range(in_flight)]
    request = ready.request(build=build)
    with pytest.raises(ZeroDivisionError):
        ready.send(request)
    assert "ZeroDivisionError" in str(ready.answer_to(request).error)
    for other in [*others, ready.send()]:
        ready.reply(metadata)
        assert ready.answer_to(other).response is not None


@pytest.mark.parametrize("size", [100, 200_000, 3_000_000])
def test_records_are_slices_of_a_frame_that_is_not_overwritten(ready, size):
    request = ready.send(api=FetchRequest)
    partition = PartitionData(partition_index=0, high_watermark=5, records=b"R" * size)
    ready.reply(FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(15) + b"1", partitions=[partition])]))
    answer = ready.answer_to(request)
    records = answer.response.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert answer.size > size
    ready.send(api=FetchRequest)
    ready.reply(FetchResponse(responses=[]))
    assert bytes(records) == b"R" * size


# -- what peers do wrong


def test_an_unexpected_correlation_id_ends_the_connection(ready, metadata):
    first, second = ready.send(), ready.send()
    ready.write()
    ready.reply(metadata, correlation_id=ready.written[1].correlation_id)
    assert isinstance(ready.answer_to(first).error, KafkaProtocolError)
    assert isinstance(ready.answer_to(second).error, KafkaConnectionError)
    assert ready.hangups == [ready.connection]


def test_a_response_without_a_request_ends_the_connection(ready, make_frame):
    ready.receive(make_frame(b"\0\0\0\1hello"))
    assert ready.connection.has_ended
    assert "no request is in flight" in str(ready.connection.error)


def test_a_malformed_response_ends_the_connection(ready, make_frame):
    request, other = ready.send(), ready.send()
    ready.write()
    ready.receive(make_frame(ready.written[0].correlation_id.to_bytes(4, "big") + b"\0" + b"\xff" * 20))
    assert isinstance(ready.answer_to(request).error, KafkaProtocolError)
    assert isinstance(ready.answer_to(other).error, KafkaConnectionError)


def test_a_size_over_the_limit_ends_the_connection(bench):
    made = bench(max_frame_bytes=1000).reach(READY)
    request = made.send()
    made.receive((1001).to_bytes(4, "big"))
    assert isinstance(made.answer_to(request).error, KafkaProtocolError)
    assert "receive_message_max_bytes=1000" in str(made.connection.error)


def test_a_tls_alert_instead_of_an_answer_names_the_option_to_set(bench):
    made = bench()
    made.connection.connection_made(0.0)
    made.receive(b"\x15\x03\x03\x00\x02\x02\x46")
    assert isinstance(made.connection.error, SslAuthenticationFailedError)
    where = "kafka:9092 (10.0.0.1:9092): the peer answers in TLS: the port expects TLS"
    assert str(made.connection.error) == f"{where} (set security_protocol='SSL')"


def test_bytes_after_the_close_are_dropped(ready, metadata):
    """The driver gets the order to hang up later, and may be in the middle of a batch of events."""
    ready.receive(b"\xff\xff\xff\xff")
    assert ready.connection.has_ended
    answers = len(ready.answers)
    ready.receive(bytes(300_000))
    ready.connection.data_sent(0, 0.0)
    ready.connection.connection_lost(None, 0.0)
    assert len(ready.answers) == answers
    assert set(ready.hangups) == {ready.connection}  # again: the driver has missed the first one


# -- the end


@pytest.mark.parametrize("error", [None, KafkaConnectionError("kafka:9092: connection reset by the peer")])
@pytest.mark.parametrize("state", [ConnectionState.CONNECTING, ConnectionState.NEGOTIATING, READY])
def test_a_lost_connection_has_an_error_and_answers_requests_in_flight(bench, state, error):
    made = bench().reach(state)
    requests = [made.send() for _ in range(3)] if state is READY else []
    made.connection.connection_lost(error, 0.0)
    assert made.connection.state is ConnectionState.DISCONNECTED
    assert isinstance(made.connection.error, KafkaConnectionError)
    for request in requests:
        assert made.answer_to(request).error is made.connection.error
    assert made.hangups == []
    if error is None:
        assert "peer closed" in str(made.connection.error)


def test_closing_answers_requests_in_flight(ready):
    requests = [ready.send() for _ in range(2)]
    ready.connection.close(None)
    for request in requests:
        assert "closed by this client" in str(ready.answer_to(request).error)
        assert isinstance(ready.answer_to(request).error, KafkaConnectionError)
    assert ready.connection.error is None


# -- time


def test_a_timeout_of_a_request_ends_the_connection(ready):
    """Were it kept, the answer could come and be taken for another's."""
    slow, other = ready.send(allowance=5.0), ready.send(allowance=30.0)
    assert ready.due() == 5.0
    ready.now = 4.9
    ready.step()
    assert ready.answers == []
    ready.now = 5.0
    ready.step()
    assert isinstance(ready.answer_to(slow).error, KafkaTimeoutError)
    assert "no answer to Metadata within 5.0 s" in str(ready.answer_to(slow).error)
    assert isinstance(ready.answer_to(other).error, KafkaConnectionError)
    assert ready.hangups == [ready.connection]


def test_deadlines_pass_only_up_to_the_last_poll_of_io(ready, metadata):
    """A program that polls once a minute must find the responses that arrived in between."""
    request = ready.send(allowance=5.0)
    ready.now = 60.0
    ready.step(horizon=0.0)
    assert ready.answers == []
    ready.reply(metadata)
    assert ready.answer_to(request).response is not None


def test_a_request_written_shortly_before_its_deadline_gets_time_for_an_answer(ready):
    """It waited long for its connection, which a timeout at once would close again."""
    request = ready.request(allowance=30.0)
    ready.now = 29.99
    ready.connection.send(request, 0.0, request.deadline, ready.now)
    assert ready.due() == pytest.approx(29.99 + LEAST_ANSWER_TIME)
    short = ready.request(allowance=0.2)
    ready.connection.send(short, ready.now, short.deadline, ready.now)
    assert ready.due() == pytest.approx(29.99 + 0.2)


def test_a_long_poll_written_late_gets_the_time_that_the_broker_holds_it_back(ready):
    """On a slow way, connecting took the time that the answer needs: each connection would end before the first one."""
    request = ready.request(allowance=2.2)
    request.max_wait = 1.1
    ready.now = 1.2
    ready.connection.send(request, 0.0, request.deadline, ready.now)
    assert ready.due() == pytest.approx(1.2 + LEAST_ANSWER_TIME + 1.1)


def test_a_response_that_is_arriving_does_not_time_out(ready, make_frame):
    """A large one over a slow line would otherwise begin again and again."""
    request = ready.send(api=FetchRequest, allowance=5.0)
    ready.write()
    partition = PartitionData(partition_index=0, records=bytes(100_000))
    response = FetchResponse(responses=[FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])])
    data = make_frame(encode_response(response, ready.written[0].api_version, ready.written[0].correlation_id))
    for start in range(0, len(data), 10_000):
        ready.step()
        ready.receive(data[start : start + 10_000])
        ready.now += ARRIVING_GAP - 0.5
    assert ready.answer_to(request).response is not None


def test_a_response_that_stops_arriving_times_out(ready):
    ready.send(allowance=5.0)
    ready.now = 4.0
    ready.receive(b"\0\0\1\0abc")
    assert ready.due() == 4.0 + ARRIVING_GAP
    ready.now = 8.9
    ready.step()
    assert not ready.connection.has_ended
    ready.now = 9.0
    ready.step()
    assert ready.connection.has_ended


def test_a_response_that_arrives_too_slowly_times_out(ready):
    """A byte every few seconds is no way to keep a consumer waiting for a year."""
    ready.send(allowance=5.0)
    ready.receive(b"\0\0\1\0")
    while not ready.connection.has_ended:
        ready.now += ARRIVING_GAP - 1
        ready.receive(b"x")
        ready.step()
        assert ready.now < 5.0 * ARRIVING_FACTOR + ARRIVING_GAP
    assert ready.now >= 5.0 * ARRIVING_FACTOR


def test_a_connection_with_a_request_in_flight_is_not_idle(bench, metadata):
    made = bench(max_idle=10.0).reach(READY)
    made.send(allowance=60.0)
    made.now = 50.0
    made.step()
    assert not made.connection.has_ended
    made.now = 50.0
    made.reply(metadata)
    assert made.due() == 60.0


def test_a_connection_is_due_when_it_may_be_idle_though_its_request_may_take_longer(bench):
    """Such as JoinGroup. The answer causes no step, and what is written before one goes to an idle connection."""
    made = bench(max_idle=10.0).reach(READY)
    made.now = 5.0
    made.send(allowance=60.0)
    assert made.due() == 15.0


def test_bytes_count_as_use_at_the_last_poll_of_io_before_they_were_received(bench, metadata):
    """A program that pauses receives them late, and load balancers count from the time at which they have arrived."""
    made = bench(max_idle=10.0).reach(READY)
    made.now = 5.0
    made.send(allowance=60.0)
    made.now = 30.0
    made.reply(metadata, polled_at=6.0)
    assert made.answers[-1].response == metadata
    made.now = 15.9
    made.step(horizon=6.0)
    assert not made.connection.has_ended
    made.now = 16.0
    made.step(horizon=6.0)
    assert made.connection.has_ended and made.connection.error is None


def test_a_request_counts_as_use_if_it_is_written_after_the_last_poll_of_io(bench, metadata):
    """As after a call that makes managers step before a poll: its response may have arrived at once."""
    made = bench(max_idle=10.0).reach(READY)
    made.now = 5.0
    made.send(allowance=60.0)
    made.reply(metadata, polled_at=1.0)
    made.now = 14.9
    made.step(horizon=5.0)
    assert not made.connection.has_ended


def test_the_idle_limit_may_be_infinite(bench):
    assert bench(max_idle=NEVER).reach(READY).due() == NEVER


def test_each_response_lets_the_next_request_be_written_if_only_one_may_be_in_flight(bench):
    """Not the first one alone: a queued request would wait until its deadline."""
    made = bench(max_in_flight=1).reach(READY)
    for _ in range(3):
        made.send()
        made.agenda.take(made.now)
        assert not made.agenda.is_due(made.now)
        made.reply(MetadataResponse())
        assert made.connection.can_send(made.now)
        assert "connection" in made.agenda.take(made.now)


def test_kip_219_throttling_holds_requests_back_and_extends_deadlines(ready):
    """The broker does not read from us meanwhile, so nothing behind can be answered either."""
    first, second = ready.send(allowance=10.0), ready.send(allowance=10.0)
    ready.reply(MetadataResponse(throttle_time_ms=4000))
    assert ready.answer_to(first).response.throttle_time_ms == 4000
    assert not ready.connection.can_send(3.9)
    assert ready.connection.can_send(4.0)
    ready.now = 13.9
    ready.step()
    assert not ready.connection.has_ended
    ready.now = 14.0
    ready.step()
    assert isinstance(ready.answer_to(second).error, KafkaTimeoutError)


def test_two_throttle_times_that_overlap_extend_deadlines_once(ready):
    ready.send()
    ready.send()
    ready.send(allowance=10.0)
    ready.reply(MetadataResponse(throttle_time_ms=4000))
    ready.now = 1.0
    ready.reply(MetadataResponse(throttle_time_ms=4000))
    assert ready.connection.throttle.at == 5.0
    assert ready.due() == 15.0


@pytest.mark.parametrize(("throttle", "muted"), [(2**31 - 1, THROTTLE_MAX), (-5, None), (0, None)])
def test_a_throttle_time_is_bounded(ready, throttle, muted):
    ready.send()
    ready.reply(MetadataResponse(throttle_time_ms=throttle))
    assert (ready.connection.throttle and ready.connection.throttle.at) == muted


def test_silence_is_measured_from_the_last_received_bytes(ready, metadata):
    assert ready.connection.silent_for(5.0) == 0.0
    ready.send()
    ready.send()
    assert ready.connection.silent_for(3.0) == 3.0
    ready.now = 3.0
    ready.reply(metadata)
    assert ready.connection.silent_for(4.0) == 1.0


# -- whatever comes


@settings(max_examples=150)
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=60), max_size=12),
    honest=st.lists(st.booleans(), max_size=12),
    sent=st.integers(0, 5),
    lost=st.booleans(),
)
def test_random_bytes_neither_raise_nor_lose_a_request(bench, chunks, honest, sent, lost):
    made = bench(max_frame_bytes=5000).reach(READY)
    requests = [made.send() for _ in range(sent)]
    made.write()
    for chunk, is_honest in zip(chunks, [*honest, *[False] * 12]):
        if is_honest and made.written and not made.connection.has_ended:
            made.reply(MetadataResponse())
        else:
            made.receive(chunk)
    if lost:
        made.connection.connection_lost(None, made.now)
    made.connection.close(None)
    assert [made.answer_to(request).request for request in requests] == requests


def test_repr_names_address_and_state(ready):
    ready.send()
    assert repr(ready.connection) == "<Connection kafka:9092 (10.0.0.1:9092) ready, 1 in flight>"
