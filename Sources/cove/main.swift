// Everything else is in nonisolated code: what is written here belongs to the main actor, where C callbacks trap.
internal import Glibc

exit(Tool.run())
