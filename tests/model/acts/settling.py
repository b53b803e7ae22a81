"""Whether a receipt must be accepted, and what its settle ends."""

from collections.abc import Sequence

from tests.model.rules.deliveries import Deliveries
from tests.model.rules.facts import Hold, Op, Outcome


class Settling(Deliveries):
    """Judges what settles are answered; arguments as of `Stock`."""

    def begin_settle(
        self, op: Op, receipts: Sequence[bytes], *, is_end: bool, is_front: bool = False, reason: bytes | None = None
    ) -> list[bool]:
        """Receipts are about to be settled; return which of them must be accepted, as of now.

        With SYNC the answer may come when others have shown the same receipt, and have been refused.
        """
        held = []
        op.is_front = is_front
        for receipt in receipts:
            share = self._receipts.get(receipt)
            op.shares.append(share)
            held.append(share is not None and share.receipt == receipt and self._is_held(share))
            if share is None:
                continue
            if reason is not None:
                share.reject = op
                share.reasons.add(reason)
                share.message.may_move = True
            if is_end:
                share.ends.append(op)
            if share.receipt == receipt:
                share.hold, share.receipt = None, b""  # it may come again before the reply does
        return held

    def settled(self, op: Op, receipts: Sequence[bytes], must: Sequence[bool], results: Sequence[bool]) -> None:
        """It was answered for each receipt."""
        is_same_run = op.epoch == self._epoch
        if op.outcome is Outcome.OPEN:
            self.accept(op)
        for receipt, share, is_live, is_settled in zip(receipts, op.shares, must, results, strict=True):
            if is_settled:
                assert share is not None, f"{receipt!r} was settled when it was over"
                assert receipt not in self._settled, f"{receipt!r} was settled once more"
                self._settled.add(receipt)
                share.front_index = op.ok_index if op.is_front and share.out_index < op.index else -1
            elif share is not None:
                assert not (is_live and is_same_run), f"{receipt!r} of {share.message} was not accepted"
                if op in share.ends:
                    share.ends.remove(op)
                if share.reject is op:
                    share.reject = None
            self._receipts[receipt] = None

    def payload_of(self, receipt: bytes) -> bytes | None:
        """Return the message that is leased with this receipt, as far as it is known."""
        share = self._receipts.get(receipt)
        return None if share is None else share.message.payload

    def not_settled(self, op: Op, receipt: bytes) -> None:
        """It could not be settled in this way, and is held as before; for how long is not known."""
        share = self._receipts.get(receipt)
        assert share is not None, f"{receipt!r} was not refused when it was over"
        assert not share.message.wishes.is_request, f"{share.message} does ask"
        if op in share.ends:
            share.ends.remove(op)

    def extended(self, op: Op, receipt: bytes, lease_seconds: float, *, is_live: bool, is_done: bool) -> None:
        """A lease was given another time, or could not be."""
        is_same_run = op.epoch == self._epoch
        self.accept(op)
        share = self._receipts.get(receipt)
        if is_done:
            assert share is not None, f"{receipt!r} was extended when it was over"
            share.receipt = receipt
            lease_seconds = min(lease_seconds, self.rules(share.message.topic).handover_seconds)
            share.hold = Hold(op.epoch, op.asked_seconds + lease_seconds, share.member)
        else:
            assert not (is_live and is_same_run), f"{receipt!r} cannot be extended"
            self._receipts[receipt] = None

    def begin_extension(self, receipt: bytes) -> bool:
        """A lease is about to be given another time; return whether it is one for certain."""
        share = self._receipts.get(receipt)
        is_live = share is not None and share.receipt == receipt and self._is_held(share)
        if share is not None and share.receipt == receipt:
            share.hold, share.receipt = None, b""
        return is_live

    def left(self, receipts: Sequence[bytes]) -> None:
        """The connection is gone that these are of; what it held is in front."""
        index = self._next()
        for receipt in receipts:
            share = self._receipts.get(receipt)
            if share is not None and share.receipt == receipt:
                share.front_index = index if self._is_held(share) else -1
                share.hold, share.receipt = None, b""
            self._receipts[receipt] = None
