internal import CoveClaims
internal import CoveCore
internal import Foundation

/// Who grants the claims of one place and carries messages to its presenters: a mount's daemon, or this process alone.
///
/// All its methods block, and are for threads of `FileThreads`.
protocol Authority: AnyObject, Sendable {
    /// Where two are asked for one access, the one of the lesser name is asked first.
    var name: String { get }
    /// Waits until all intents are granted.
    func claim(_ request: ClaimRequest) throws(CoveError) -> Grant
    /// Asks the presenters of all intents, once, and keeps nobody from the items; what is released when they may have them again.
    func prepare(_ request: ClaimRequest) throws(CoveError) -> String
    /// Ends a claim; throws ESTALE when others got it meanwhile.
    func release(_ claim: String) throws(CoveError)
    /// The claims that a coordinator's waiting ones wait for, themselves or through others.
    func blockers(of coordinator: CoordinatorIdentity) -> Set<String>
    /// The holder of a claim moved an item.
    func moved(_ claim: String, from: Location, to: Location) throws(CoveError)
    /// The holder of a claim moved an item to where another authority is asked.
    func movedOut(_ claim: String, from: Location, to path: String) throws(CoveError)
    /// Begins to send messages to a presenter.
    func add(_ presenter: PresenterMailbox) throws(CoveError)
    /// The presenter's location has changed.
    func move(_ presenter: PresenterMailbox) throws(CoveError)
    /// Ends `add`.
    func remove(_ presenter: PresenterMailbox)
}

/// A path and the mount of Cove's that shows it.
struct Location: Sendable, Hashable {
    /// The path without symbolic links on the way.
    var path: String
    /// The mount; nil on any other file system.
    var mount: Mount?
    /// The path from the account's root, or that of the system.
    var remote: RemotePath

    /// An item on a mount.
    init(path: String, mount: Mount?, remote: RemotePath) {
        (self.path, self.mount, self.remote) = (path, mount, remote)
    }

    /// An item that no mount of Cove's shows.
    init(outside path: String) { self.init(outside: RemotePath(unchecked: Array(path.utf8.drop { $0 == 0x2F }))) }

    /// The same, from the system's root.
    init(outside remote: RemotePath) {
        self.init(path: remote.isRoot ? "/" : "/\(remote)", mount: nil, remote: remote)
    }

    var url: URL { URL(fileURLWithPath: path) }

    /// The names that a claim table knows it by; packages are marked by daemons alone.
    var steps: [PathStep] { remote.names.map { PathStep(name: $0) } }

    /// Another item of the same account, as this location's mount shows it, or of the system.
    func sibling(at remote: RemotePath) -> Location {
        guard let mount else { return Location(outside: remote) }
        // By bytes: to Swift's strings a slash and an accent at the beginning of a name are one character.
        let root = mount.root == "/" ? [] : Array((mount.root.dropFirst() + "/").utf8)
        let bytes = remote.bytes.starts(with: root) ? remote.bytes.dropFirst(root.count) : remote.bytes[...]
        let inside = String(decoding: bytes, as: UTF8.self)
        let top = mount.path == "/" ? "" : mount.path
        return Location(path: inside.isEmpty ? mount.path : "\(top)/\(inside)", mount: mount, remote: remote)
    }
}

/// One item of a request.
struct Intent: Sendable {
    var purpose: FileAccessIntent.Purpose
    var location: Location

    /// The intent as it travels.
    var wire: CoordinationInterface.Intent {
        let path = PathParameter(location.remote)
        return switch purpose {
        case .reading(let options): CoordinationInterface.Intent(reading: path, options.wire)
        case .writing(let options): CoordinationInterface.Intent(writing: path, options.wire.first)
        }
    }

    /// The options of a writer; none for a reader.
    var writing: FileCoordinator.WritingOptions {
        if case .writing(let options) = purpose { options } else { [] }
    }

    /// The options of a reader; none for a writer.
    var reading: FileCoordinator.ReadingOptions {
        if case .reading(let options) = purpose { options } else { [] }
    }
}

/// Who asks.
final class CoordinatorIdentity: Sendable {
    /// Names the coordinator within this process.
    let name = UUID().uuidString
}

/// What is asked of one authority, as one entry of its queue.
struct ClaimRequest: Sendable {
    var coordinator: CoordinatorIdentity
    var purpose: String
    /// The coordinator's own presenter, which is not asked.
    var presenter: PresenterMailbox?
    var intents: [Intent]
    /// The longest wait; nil for none.
    var timeout: Duration?
    /// Claims of the authority in whose accessors this is asked for.
    var within: [String] = []
    /// Claims whose questions the presenter answers with what this one is for.
    var answering: [String] = []
    /// True where it is asked for in an accessor, or for a presenter's answer.
    var isNested = false
    /// What is done about files that programs have open for writing.
    var openFiles = FileCoordinator.OpenFilePolicy.wait
    /// Gives the wait up.
    var cancellation = Cancellation()
}

/// A claim that was granted.
struct Grant: Sendable {
    /// Names it.
    var claim: String
    /// Where the items are, in the order of the intents; a snapshot's path where one was made.
    var paths: [String]
    /// Files that other programs have open for writing.
    var openFiles: [FileCoordinator.OpenFile] = []
}
