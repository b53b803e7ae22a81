"""What several tests of encoders use."""


def result_of(work):
    """Return the result of work, and how often it yielded."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1
