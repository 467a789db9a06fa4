internal import CoveCore
internal import Foundation
internal import Synchronization

/// From a path to who is asked for claims on it.
enum Authorities {
    private static let daemons = Mutex<[String: DaemonAuthority]>([:])
    static let process = ProcessAuthority()

    /// Finds a path's authority; the item itself need not be there.
    ///
    /// Blocks.
    static func find(_ url: URL, followsLink: Bool = false) throws(CoveError) -> (any Authority, Location) {
        guard url.isFileURL else { throw CoveError(.invalidArgument, "is no file's URL", url: url) }
        var path = Array(url.path.utf8)
        if followsLink, let target = realpath(url.path, nil) {
            path = Array(String(cString: target).utf8)
            free(target)
        }
        do throws(ItemLocation.Failure) {
            let found = try ItemLocation.find(path)
            let location = Location(
                path: String(decoding: found.absolute, as: UTF8.self),
                mount: found.mount,
                remote: found.path
            )
            return (daemon(at: found.socket), location)
        } catch {
            switch error {
            case .outside: break
            case .way(.notConnected), .item(.notConnected), .dead:
                throw CoveError(.noDaemon, "the mount's daemon has died", url: url)
            case .way(let errno), .item(let errno), .mountTable(let errno): throw CoveError(errno, url: url)
            case .silent(_, let errno):
                throw CoveError(.noDaemon, "the mount does not tell its daemon (\(errno))", url: url)
            }
        }
        let resolved = try? ItemLocation.resolve(path)
        return (process, Location(path: resolved.map { String(decoding: $0, as: UTF8.self) } ?? url.path))
    }

    /// The one session that this process has with a daemon.
    static func daemon(at socket: String) -> DaemonAuthority {
        daemons.withLock { daemons in
            if let known = daemons[socket] { return known }
            let made = DaemonAuthority(socket: socket)
            daemons[socket] = made
            return made
        }
    }
}
