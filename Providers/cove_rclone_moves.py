"""How cove-rclone moves folders: where a remote does that file by file, one that was cut off goes on."""

import json
import os
import time

# How long others are told of a folder's move that is not going on.
MOVE_TIME = 3600


class FolderMoves:
    """Moves of folders, and which of them are on their way."""

    def move_directory(self, path, target):
        """Moves a folder; where that is done file by file, none is replaced, and what can't go stays."""
        is_at_once = "DirMove" in self.can
        if not is_at_once:
            self.note_move(path, target, True)
        self.daemon.call(
            "sync/move",
            srcFs=self.place(path),
            dstFs=self.place(target),
            createEmptySrcDirs=True,
            deleteEmptySrcDirs=True,
            _config={"IgnoreExisting": True},
        )
        if not is_at_once:
            # What is left of the folders goes, if it is empty.
            self.daemon.call("operations/rmdirs", fs=self.remote, remote=path)
            self.note_move(path, target, False)

    def movesUnderway(self, parameters, call):
        if "DirMove" in self.can:
            return {}
        # Nobody waits for ever for one that is not taken up again.
        oldest = time.monotonic() - MOVE_TIME
        with self.lock:
            moves = [move for move, since in self.moves.items() if since > oldest]
        return {"moves": [{"from": source, "to": target} for source, target in moves]}

    def note_move(self, source, target, begins):
        """Keeps which folders are on their way, so that a move that was cut off goes on."""
        with self.lock:
            self.moves.pop((source, target), None)
            if begins:
                self.moves[source, target] = time.monotonic()
            with open(self.moves_file + ".new", "w") as file:
                json.dump(list(self.moves), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.moves_file + ".new", self.moves_file)

    def read_moves(self):
        try:
            with open(self.moves_file) as file:
                found = json.load(file)
        except (OSError, ValueError):
            return []
        return [tuple(move) for move in found if isinstance(move, list) and len(move) == 2]
