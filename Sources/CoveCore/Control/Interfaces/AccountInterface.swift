/// `io.cove.Account`: the account as a whole.
public enum AccountInterface {
    /// The interface's name.
    public static let name = "io.cove.Account"

    /// The interface's definition.
    public static let definition = """
        # One Cove account: one cloud source and this device's state for it.
        # Paths are relative to the mount point; a path that is not UTF-8 travels as path_base64.
        interface io.cove.Account

        type Transfer (
          path: string,
          direction: (download, upload),
          doneBytes: int,
          totalBytes: int,
          bytesPerSecond: float
        )

        type ItemError (
          path: string,
          message: string,
          retryInSeconds: ?float
        )

        # Nothing was sent for so long though the source answers: what waits longest, and for what. As heldUp, what has
        # waited for so long while others were sent.
        type Standstill (
          path: string,
          reason: string,
          seconds: float
        )

        # state: idle, syncing, paused, paused-not-migrated, offline or waiting-for-approval. Of many errors the first are
        # told, and how many there are. generation: drive for a device that uses the account's apps, else legacy.
        # excluded: how many names a person keeps out of the cloud. requestsLastHour: what the source was asked for, or since the daemon's start; requestCostLastHour: the same of a bucket at
        # Amazon's list price, in dollars.
        type AccountStatus (
          account: string,
          source: string,
          mountpoint: string,
          stateDirectory: string,
          state: string,
          reason: ?string,
          queuedOperations: int,
          transfers: []Transfer,
          conflicts: int,
          errors: []ItemError,
          errorCount: int,
          residentBytes: int,
          cacheLimit: int,
          weaknesses: []string,
          standstill: ?Standstill,
          heldUp: ?[]Standstill,
          generation: ?string,
          requestsLastHour: ?int,
          requestCostLastHour: ?float,
          excluded: ?int
        )

        type Counters (
          downloads_started: int,
          bytes_downloaded: int,
          content_updates: int,
          bytes_uploaded: int,
          deletions: int,
          moves: int,
          provider_requests: int,
          fuse_requests: int,
          read_hits: int,
          read_misses: int,
          parked_requests: int,
          announcements: int,
          thumbnails_fetched: int,
          thumbnails_made: int,
          thumbnails_sent: int,
          dirty_items: int,
          queued_operations: int,
          conflicts: int,
          resident_bytes: int,
          items: int,
          open_handles: int,
          memory_bytes: int,
          daemon_pid: int,
          keeper_pid: int
        )

        type SyncReport (
          isSettled: bool,
          remaining: int,
          errors: []ItemError
        )

        type Conflict (
          path: string,
          copyPath: string,
          host: string,
          time: float
        )

        # location: local or remote
        type TrashEntry (
          documentID: string,
          path: string,
          time: float,
          size: int,
          location: string
        )

        # A name that stays on this device whatever has it: isAsked where a person said so, else because something excluded was
        # moved there. isThere while something has it.
        type ExcludedItem (
          path: string,
          path_base64: ?string,
          isAsked: bool,
          isThere: bool
        )

        # level: ok, warning or problem
        type Finding (
          check: string,
          level: string,
          message: string,
          remedy: ?string
        )

        # What the account does now.
        method Status() -> (status: AccountStatus)

        # Counters since the daemon started; program is the device and the inode of what it runs, for nobody can look.
        method Statistics() -> (statistics: Counters, program: ?string)

        # Sends what waits and fetches what is new, below the path or everywhere. With wait it replies once nothing is
        # left or the time is over; with more it sends the status until then.
        method Sync(
          path: ?string,
          path_base64: ?string,
          wait: ?bool,
          timeoutSeconds: ?float,
          acceptDeletions: ?bool,
          acceptLocalDeletions: ?bool
        ) -> (status: ?AccountStatus, report: ?SyncReport)

        # Stops sending, and fetching by itself, until Resume; opening a file still fetches it, and what other devices change
        # is still shown.
        method Pause() -> ()

        # Ends Pause.
        method Resume() -> ()

        # Documents with two contents. Long lists need more.
        method Conflicts() -> (conflicts: []Conflict)

        # What is excluded, by io.cove.Item.Exclude. Long lists need more.
        method ExcludedList() -> (items: []ExcludedItem)

        # Deleted documents that can be restored. Long lists need more.
        method TrashList() -> (entries: []TrashEntry)

        # Puts a deleted document back; replies where.
        method TrashRestore(documentID: string) -> (path: ?string, path_base64: ?string)

        # Deletes for good what was deleted longer ago than that, or all.
        method TrashEmpty(olderThanSeconds: ?float) -> (count: int)

        # Leaves a note at the source by which all devices know that everything is meant to go: none of them asks about it.
        method BeginErasure() -> ()

        # When all documents are deleted and that is sent: deletes the trash, versions and what else is kept of them, here and
        # at the source. count: how many were in the trash.
        method FinishErasure() -> (count: int)

        # Makes the account one of apps, for this device and the others; folders that have a container's identifier and
        # Documents become containers, unless except names them. dryRun: tells the containers that there would be, and does
        # nothing. isNew: false where it was that already.
        method Migrate(dryRun: ?bool, except: ?[]string) -> (isNew: bool, containers: []string)

        # step: open, claim, provide, contents, provided, stop, fail, grant, refuse, close, send or sent. lost: how many
        # events before this one nobody took in time.
        type TraceEvent (
          time: float,
          step: string,
          itemID: int,
          path: ?string,
          path_base64: ?string,
          process: ?int,
          program: ?string,
          detail: ?string,
          lost: ?int
        )

        # Tells what happens to a file, to all below a directory, or to everything, until the caller goes or the daemon ends.
        # Needs more. The first reply has no event, and says that from now on none is missed. A caller that reads nothing for
        # half a minute is disconnected.
        method Trace(path: ?string, path_base64: ?string) -> (event: ?TraceEvent)

        # Looks for trouble.
        method Diagnose() -> (findings: []Finding)

        # Writes back what programs wrote, and unmounts. What waits for the cloud stays for the next mount. The daemon
        # closes the connection when it has ended.
        method Unmount(lazy: ?bool) -> (queuedOperations: int)

        # Has the executable at the path serve the mount instead of the daemon, which ends; programs wait for a moment.
        method Upgrade(program: string) -> ()

        # What happened; what to do. errno is set where a system call would have failed so.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        """
}
