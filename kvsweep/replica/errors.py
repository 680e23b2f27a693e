"""How the replica ends where the reference crashes."""


class ReferencePanic(Exception):
    """The reference crashes here.

    Attributes
    ----------
    defect : str
        Name of the defect, such as ``D7``.
    message : str
        What the reference prints.
    """

    def __init__(self, defect: str, message: str) -> None:
        super().__init__(f"{defect}: {message}")
        self.defect = defect
        self.message = message
