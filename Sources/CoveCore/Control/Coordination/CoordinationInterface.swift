/// `io.cove.Coordination`: claims and presenters.
public enum CoordinationInterface {
    /// The interface's name.
    public static let name = "io.cove.Coordination"

    /// The interface's definition.
    public static let definition = """
        # Coordinated access to the items of one Cove account. Paths are relative to the mount point, path_base64 is for one
        # that is not UTF-8. A session is the connection that Attend is called on, and ends with it: its claims end, its
        # presenters vanish, and what they were asked counts as answered. Limits, beyond which calls fail with EUSERS: 1,000
        # sessions, in each 10,000 claims and 10,000 presenters, in all 100,000 presenters and 200,000 claimed items, 1,000 items
        # a claim. Paths have at most 4,096 bytes, coordinators and purposes 255, else ENAMETOOLONG. A session that has not
        # taken 20,000 messages ends, and with it what Attend replies.
        interface io.cove.Coordination

        type Path (path: ?string, path_base64: ?string)

        # Options of a reading: withoutChanges, resolvesSymbolicLink, immediatelyAvailableMetadataOnly, forUploading.
        # Of a writing, at most one: forDeleting, forMoving, forMerging, forReplacing, contentIndependentMetadataOnly.
        type Intent (kind: (reading, writing), options: []string, path: ?string, path_base64: ?string)

        # Where the item is now; it may have moved while the claim waited. What was named by a reference has that name. snapshot is the absolute path of the copy made
        # by forUploading, which goes when the claim is released.
        type Granted (path: ?string, path_base64: ?string, snapshot: ?string, documentID: ?string)

        # An earlier content of a file, as in io.cove.Item.
        type Version (
          id: string,
          documentID: string,
          size: int,
          modificationTime: float,
          replacedTime: float,
          host: ?string,
          contentVersion: ?string,
          isLocal: bool,
          isConflict: bool,
          conflictPath: ?string
        )

        # What a presenter is told or asked. One that wantsReply holds a claim up until Reply. kind: relinquishToReader,
        # relinquishToWriter, reacquire, saveChanges, accommodateDeletion, accommodateSubitemDeletion, accommodateEviction,
        # didMove, didChange, didChangeAttributes, subitemDidAppear, subitemDidMove, subitemDidChange, didGainVersion,
        # didLoseVersion, didResolveVersion, subitemDidGainVersion, subitemDidLoseVersion, subitemDidResolveVersion.
        # Without presenter, to the session itself: ping, which wants a reply within 10 s while others wait for one of its
        # claims, and claimLost, when it got none.
        # path is the item's, or the subitem's; newPath is where it moved to, outside the same on another file system. claim is the one that a reply lets go on.
        # A didChange or subitemDidChange that waits to be read is not told a second time.
        type Message (
          number: int,
          presenter: ?string,
          kind: string,
          path: ?string,
          path_base64: ?string,
          newPath: ?Path,
          outside: ?string,
          wantsReply: bool,
          claim: ?string,
          version: ?Version,
          attributes: []string
        )

        # state: waiting (for other claims), presenters (for their replies), contents (to be fetched), or granted.
        # holder: session, connection, program (one that just uses the mount) or sync. waitsFor are claims.
        type ClaimStatus (
          claim: string,
          state: string,
          holder: string,
          process: int,
          program: string,
          coordinator: ?string,
          purpose: ?string,
          intents: []Intent,
          waitsFor: []string,
          seconds: float,
          openFiles: ?[]OpenFile
        )

        # A file that a program has open for writing; process is 0 where that can't be seen.
        type OpenFile (path: string, process: int, program: string)

        # unanswered counts the messages that wait for its reply.
        type PresenterStatus (
          presenter: string,
          process: int,
          program: string,
          path: ?string,
          path_base64: ?string,
          messages: []string,
          unanswered: int
        )

        # Begins a session. The first reply has its token, each later one a message. Needs more. With resume, a token of
        # before the daemon was replaced, that session goes on with its claims, if it comes within 10 s; with keepsPresenters
        # also with the presenters that the first reply names, whom what they are asked meanwhile waits for. All others are
        # to be added again. The first reply also has the claims that the session is granted, of which one may be new to the
        # program, and in letIn those that these presenters have let in and of whose end they will be told: other ones have
        # ended.
        method Attend(resume: ?string, keepsPresenters: ?bool) -> (
          session: ?string,
          presenters: ?[]string,
          claims: ?[]string,
          letIn: ?[]string,
          message: ?Message
        )

        # Asks for all intents at once, and replies when all are granted. Claims of one coordinator, or of one purpose,
        # never wait for each other; presenter, the coordinator's own, is not asked. Without a session the claim belongs
        # to this connection. A caller that closes the connection, or a timeout in seconds, ends the wait.
        # With a timeout of 0 it fails at once where others hold it up, else it takes what presenters and contents take.
        # within are claims of the caller's own that it does not end before this one: where those are waited for, by others
        # that this one waits for or by itself, it fails with EDEADLK. Without it, those are all that this connection asked for:
        # claims of the caller's other connections and sessions may end meanwhile, so who does not name one that does not waits
        # for it until the timeout, for ever without one.
        # openFiles says what is done about files that programs have open for writing: wait (until they rest or are closed),
        # ignore, or fail (with EBUSY). Those that others still have open when it is granted are told: what is written to them
        # by such a file later is not held back.
        # answering are claims that presenter was asked for and has not answered yet, by their names in the messages: what it
        # does under this claim is for its answer, so they wait for it. What a presenter asks for while it is to save its
        # changes is taken for its answer in any case.
        # A coordinator has one purpose; another one is EINVAL. So is one beside a presenter,
        # which has its own.
        method Claim(
          session: ?string,
          coordinator: ?string,
          purpose: ?string,
          presenter: ?string,
          intents: []Intent,
          timeout: ?float,
          within: ?[]string,
          openFiles: ?string,
          answering: ?[]string
        ) -> (claim: string, items: []Granted, openFiles: ?[]OpenFile)

        # The holder of a claim that writes there has moved an item: others wait for it, and present it, where it is now.
        # Where it was not moved nothing happens.
        method Moved(claim: string, path: ?string, path_base64: ?string, newPath: Path, session: ?string) -> ()

        # The holder of a claim that writes there has moved an item to another file system, where outside is its absolute path:
        # who presents it, or something in it, is told. While it is still there nothing happens. Of what an app's program says
        # others hear that the item is gone, not where it is.
        method MovedOut(claim: string, path: ?string, path_base64: ?string, outside: string, session: ?string) -> ()

        # Ends a claim. When it replies, presenters are being told. A claim is moved and released by the process that has it,
        # or by one that names its session; others get EACCES.
        method Release(claim: string, session: ?string) -> ()

        # Waiting and later claims of a coordinator fail with ECANCELED; granted ones stay.
        method Cancel(session: string, coordinator: string) -> ()

        # Asks the presenters of all intents once, as before many claims, and keeps nobody else from the items. They have them
        # again when the reply's claim, which is good for nothing else, is released. A caller that closes the connection, or a
        # timeout in seconds, ends the wait.
        method Prepare(
          session: string,
          coordinator: ?string,
          purpose: ?string,
          presenter: ?string,
          intents: []Intent,
          timeout: ?float
        ) -> (claim: string)

        # Says that the session presents an item; one without a path may get one by MovePresenter. messages are the kinds it
        # implements, observes the attributes it wants didChangeAttributes of. All claims with this presenter have its purpose.
        method AddPresenter(
          session: string,
          path: ?string,
          path_base64: ?string,
          messages: []string,
          observes: []string,
          purpose: ?string
        ) -> (presenter: string)

        # The presenter presents another item now.
        method MovePresenter(session: string, presenter: string, path: ?string, path_base64: ?string) -> ()

        # Ends AddPresenter; what it was asked counts as answered.
        method RemovePresenter(session: string, presenter: string) -> ()

        # Answers a message. An error fails the claim that waits for it.
        method Reply(session: string, message: int, error: ?string, errno: ?int) -> ()

        # All claims and presenters. Long lists need more.
        method List() -> (claims: []ClaimStatus, presenters: []PresenterStatus)

        # What happened; what to do. errno: ECANCELED, EDEADLK for claims that wait for each other, ETIMEDOUT, EINVAL, EUSERS
        # beyond a limit, ESTALE for a claim or session that is gone, that of the presenter that failed or of the source.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        """
}
