internal import CoveCore
internal import CoveEngine

extension Errno {
    /// What happened and what to do, where there is more to say than the C library does.
    var explanation: String {
        switch self {
        case .noSuchEntry: "no such item; check the name"
        case .hostUnreachable: "the source can't be reached; try again when it can"
        case .timedOut: "the source makes no progress; try again later"
        case .keyRejected: "the source refuses the credentials; see `cove doctor`"
        case .noSpace: "this disk is full; free some room, for instance with `cove evict`"
        case .quotaExceeded: "the source is full; free some room there"
        case .notDirectory: "this is no directory; name a directory"
        case .stale: "the item was replaced meanwhile; try again"
        case .busy: "something uses the item; try again when it is closed"
        default: description
        }
    }

    /// The failure that a control method answers.
    func failure(interface: String) -> VarlinkError {
        .failed(explanation, errno: self, interface: interface)
    }
}

extension ActionError {
    /// The failure that `Perform` and `Publish` answer.
    func failure() -> VarlinkError { .failed(message, errno: errno, path: path, interface: ItemInterface.name) }
}

extension EvictionError {
    /// The failure that `Evict` answers; it names the item where that is not the one asked for.
    func failure(requested: RemotePath) -> VarlinkError {
        .failed(
            path == requested ? message : "\(path): \(message)",
            errno: errno,
            path: path,
            interface: ItemInterface.name
        )
    }
}
