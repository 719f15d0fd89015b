"""One metric: a name, what it says, and numbers by the values of its labels."""

from __future__ import annotations

Labels = tuple[str, ...]
Line = tuple[str, Labels, float]  # the suffix of the name, the values of its labels, the number


class Family:
    """One metric: numbers by the values of its labels."""

    def __init__(self, name: str, kind: str, says: str, *labels: str) -> None:
        self.name, self.kind, self.says, self.labels = f"tenure_{name}", kind, says, labels
        self.numbers: dict[Labels, float] = {}
        if kind == "counter" and not labels:
            self.numbers[()] = 0

    def add(self, labels: Labels = (), n: float = 1) -> None:
        """Count."""
        self.numbers[labels] = self.numbers.get(labels, 0) + n

    def set(self, labels: Labels, number: float) -> None:
        """Set the current number."""
        self.numbers[labels] = number

    def lines(self) -> list[Line]:
        """A copy of the numbers."""
        return [("", labels, number) for labels, number in self.numbers.items()]
