internal import CoveCore

extension Failure {
    /// Finds where an operand is, and says in words why it has no place.
    static func locating(
        _ path: [UInt8],
        _ find: ([UInt8]) throws(ItemLocation.Failure) -> ItemLocation = ItemLocation.existing
    ) throws(Failure) -> ItemLocation {
        do throws(ItemLocation.Failure) { return try find(path) } catch {
            throw Failure(error, String(decoding: path, as: UTF8.self))
        }
    }

    private init(_ failure: ItemLocation.Failure, _ shown: String) {
        switch failure {
        case .outside:
            self.init(shown, "is not inside a Cove mount", "name a path below one (`findmnt -t fuse.cove`)")
        case .way(.notConnected):
            self.init(shown, "the mount's daemon has died", "run `cove unmount` on the mount point and mount again")
        case .way(let error): self.init(shown, "\(error)", "check the path")
        case .item(let error): self.init(shown, error.explanation)
        case .dead(let path):
            self.init(
                shown,
                "the daemon of the mount at \(path) has died",
                "run `cove unmount \(path)` and mount again"
            )
        case .silent(let path, let error):
            self.init(shown, "the mount at \(path) does not tell its daemon: \(error)", "name it with --account")
        case .mountTable(let error): self.init("/proc/self/mountinfo", "\(error)", "mount /proc")
        }
    }
}

extension ItemLocation {
    /// True for a path, as the account tells it, that is this one or below it.
    func holds(_ told: String) -> Bool {
        let own = path.description
        return path.names.isEmpty || told == own || told.hasPrefix(own + "/")
    }
}
