"""Deliberate bugs in workers, each of which a swarm of members with workers has to notice; see ``planting.py``."""

import functools
from dataclasses import replace
from heapq import heappush

from lab import ParallelSwarm
from lab.knobs import Knobs
from planting import Plant, bug, returns

from thinconsumer.support.timers import NEVER
from thinconsumer.workers import progress, work
from thinconsumer.workers.base import BaseWorkers
from thinconsumer.workers.dead_letters import DeadLetters
from thinconsumer.workers.dispatcher import JobDispatcher
from thinconsumer.workers.progress import PartitionProgress
from thinconsumer.workers.running import Workers
from thinconsumer.workers.work import Work

parallel = functools.partial(bug, ParallelSwarm)

# -- the worlds that a bug needs: in others it does nothing, and they need not be searched


def concurrent(knobs: Knobs) -> bool:
    """Some workers run several handlers at a time, which take their time."""
    return any(each.concurrency > 1 and each.duration_s and each.metadata_max > 100 for each in knobs.work)


def by_key(knobs: Knobs) -> bool:
    """Some workers keep the order of keys with several handlers at a time."""
    return concurrent(knobs) and any(each.order == "key" and each.concurrency > 1 for each in knobs.work)


def failing(knobs: Knobs) -> bool:
    """Some handlers fail, and are called again."""
    return any(each.failure_rate and each.attempts != 1 for each in knobs.work)


def slow(knobs: Knobs) -> bool:
    """Some handlers take long enough to be found running by a revocation."""
    return any(each.duration_s > 0.05 for each in knobs.work)


def writing_letters(knobs: Knobs) -> bool:
    """Records are given up, and written as dead letters."""
    return any(each.writes_letters and each.on_failure == "skip" and each.attempts in (1, 2) for each in knobs.work)


def truncating(knobs: Knobs) -> bool:
    """Unclean elections lose records that members have read."""
    return knobs.unclean and knobs.replication > 1 and knobs.takeovers > 0


# -- what the plants call


def finished_in_spite(fail, self, job, now):
    self.finish(job)
    return True


def let_go_at_once(repeat, self, job, at):
    repeat(self, job, at)
    queue = job.lane.keys.get(job.key)
    if queue is not None and queue.offset >= 0:
        heappush(job.lane.ready, (queue.offset, queue))
        self._turns.setdefault(job.lane)


def acknowledged_at_once(poll, self):
    pending, self._pending = self._pending, []
    yield from ((job, None) for job, _ in pending)


def not_busy(job_of, self, lane, queue):
    job = job_of(self, lane, queue)
    queue.busy = False
    return job


def turn_lost(finish, self, job):
    finish(self, job)
    self._turns.pop(job.lane, None)


def due_without_room(next_time, self):
    retry = self._work.dispatcher.next_time()
    return min(next_time(self), NEVER if retry is None else retry)


def began_only(take, self, records, now):
    return {tp: offset for tp, offset in take(self, records, now).items() if tp in self.dispatcher.lanes}


WORK_BUGS = (
    parallel(
        "commit past an unfinished record",
        "The committed offset is that of the first unfinished record, whatever has finished behind it.",
        Plant(PartitionProgress, "offset", lambda offset, self: max(offset(self), self._finished_end)),
        needs=concurrent,
    ),
    parallel(
        "unfinished record named as finished",
        "The map of a commit names every unfinished record below its end.",
        Plant(progress, "encode", lambda encode, found: encode(replace(found, unfinished=[]))),
        needs=concurrent,
    ),
    parallel(
        "map of a commit ignored",
        "What a commit has named as finished is not given out again.",
        returns(work, "_restored", None),
        needs=concurrent,
    ),
    parallel(
        "unfinished record of a map left out",
        "A record that a map names as unfinished is given out by the next owner.",
        Plant(
            PartitionProgress,
            "receive",
            lambda receive, self, offset, epoch: receive(self, offset, epoch) and self._restored is None,
        ),
        needs=concurrent,
    ),
    parallel(
        "two records of a key at once",
        "A record begins when those of its key before it are finished.",
        Plant(JobDispatcher, "_job_of", not_busy),
        needs=by_key,
    ),
    parallel(
        "failed record overtaken",
        "A record that is to be tried again holds back the others of its key.",
        Plant(JobDispatcher, "repeat", let_go_at_once),
        needs=failing,
    ),
    parallel(
        "failed record finished",
        "A record whose handler has failed is tried again, and no commit passes it.",
        Plant(JobDispatcher, "fail", finished_in_spite),
        needs=failing,
    ),
    parallel(
        "revoked without waiting for handlers",
        "Handlers of a partition that is revoked may end before it is committed.",
        returns(Workers, "_drain"),
        needs=slow,
    ),
    parallel(
        "revoked without a commit",
        "What has finished is committed before a partition is given up.",
        returns(Workers, "_commit"),
    ),
    parallel(
        "lost partitions kept",
        "Workers forget a partition that was lost or revoked, and never commit it.",
        returns(BaseWorkers, "lose"),
    ),
    parallel(
        "partitions without commits passed over",
        "A partition whose commits cannot be read when it is assigned begins once they are.",
        Plant(Work, "take", began_only),
        needs=lambda knobs: knobs.coordinator_kills or knobs.coordinator_pauses or knobs.vanishings,
    ),
    parallel(
        "partitions paused for good",
        "A paused partition is resumed when half of its waiting records are handed out.",
        Plant(JobDispatcher, "full", lambda full, self, paused=(): full(self, paused) | set(paused)),
    ),
    parallel(
        "dead letter not waited for",
        "A record that was given up is done once its dead letter is written.",
        Plant(DeadLetters, "poll", acknowledged_at_once),
        needs=writing_letters,
    ),
    parallel(
        "replaced records passed over",
        "Records of a newer leader epoch below the first unfinished record have replaced finished ones.",
        returns(Work, "_moved_back", False),
        needs=truncating,
    ),
    parallel(
        "turn lost with the last job",
        "A partition with records that are ready gets its turn when a job of it has finished.",
        Plant(JobDispatcher, "finish", turn_lost),
        needs=by_key,
    ),
    parallel(
        "busy while all handlers run",
        "A retry that is due waits for room without calls of step().",
        Plant(Workers, "_next_time", due_without_room),
        needs=failing,
    ),
)
