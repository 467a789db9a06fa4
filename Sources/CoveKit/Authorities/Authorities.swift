internal import CoveCore
internal import Foundation
internal import Synchronization

/// From a path to who is asked for claims on it.
enum Authorities {
    private static let daemons = Mutex<[DaemonAddress: DaemonAuthority]>([:])
    static let process = ProcessAuthority()

    /// Finds a path's authority; the item itself need not be there.
    ///
    /// Blocks.
    static func find(_ url: URL, followsLink: Bool = false) throws(CoveError) -> (any Authority, Location) {
        let path = try bytes(url, followsLink: followsLink)
        if let (address, location) = try locate(path, url, .coordination) { return (daemon(at: address), location) }
        let resolved = try? ItemLocation.resolve(path)
        return (process, Location(outside: resolved.map { String(decoding: $0, as: UTF8.self) } ?? url.path))
    }

    /// The daemon that shows a path, or what a symbolic link there points at, with one of its sockets; nil outside of Cove's
    /// mounts.
    ///
    /// Blocks.
    static func locate(
        _ url: URL,
        _ socket: ItemLocation.Socket,
        followsLink: Bool = true
    ) throws(CoveError) -> (DaemonAddress, Location)? {
        try locate(try bytes(url, followsLink: followsLink), url, socket)
    }

    private static func bytes(_ url: URL, followsLink: Bool) throws(CoveError) -> [UInt8] {
        guard url.isFileURL else { throw CoveError(.invalidArgument, "is no file's URL", url: url) }
        guard followsLink, let target = realpath(url.path, nil) else { return Array(url.path.utf8) }
        defer { free(target) }
        return Array(String(cString: target).utf8)
    }

    private static func locate(
        _ path: [UInt8],
        _ url: URL,
        _ socket: ItemLocation.Socket
    ) throws(CoveError) -> (DaemonAddress, Location)? {
        do throws(ItemLocation.Failure) {
            let found = try ItemLocation.find(path, socket: socket)
            let location = Location(
                path: String(decoding: found.absolute, as: UTF8.self),
                mount: found.mount,
                remote: found.path
            )
            return (found.daemon, location)
        } catch {
            switch error {
            case .outside: return nil
            case .way(.notConnected), .item(.notConnected), .dead:
                throw CoveError(.noDaemon, "the mount's daemon has died", url: url)
            case .way(let errno), .item(let errno), .mountTable(let errno): throw CoveError(errno, url: url)
            case .silent(_, let errno):
                throw CoveError(.noDaemon, "the mount does not tell its daemon (\(errno))", url: url)
            }
        }
    }

    /// The one session that this process has with a daemon.
    static func daemon(at address: DaemonAddress) -> DaemonAuthority {
        daemons.withLock { daemons in
            if let known = daemons[address] { return known }
            let made = DaemonAuthority(address)
            daemons[address] = made
            return made
        }
    }
}
