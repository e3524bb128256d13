"""How fast the service is when it is full: reading, submitting, and bringing a board up to date, each alone.

    python -m benchmarks.service [--database sqlite|postgresql] [--traces 1000000] [--seconds 30] [--json FILE]

The service runs as its own process, as `kernelmill serve` starts it, with rate limits and quotas lifted. Requests come
from a second process at random moments of a fixed mean rate, whether or not the ones before were answered, and a
latency counts from the moment at which a request was due: a service that falls behind can't hide it. Without
`--database-url` a PostgreSQL of its own is started, which flushes to the disk at each commit.
"""
