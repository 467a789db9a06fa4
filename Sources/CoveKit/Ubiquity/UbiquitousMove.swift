internal import CoveCore
internal import Foundation

/// A move of an item into an account or out of it, which is to another file system.
struct UbiquitousMove: Sendable {
    private let isInto: Bool
    private let source: URL
    private let destination: URL

    init(into isInto: Bool, from source: URL, to destination: URL) {
        (self.isInto, self.source, self.destination) = (isInto, source, destination)
    }

    /// Sees that it can be, and has the bytes fetched of what is to leave.
    ///
    /// Blocks.
    func prepare() throws(CoveError) {
        let isInside = { (url: URL) throws(CoveError) in
            try Authorities.locate(url, .coordination, followsLink: false) != nil
        }
        try explaining(source) { _ = try System.lstat(source.path) }
        guard try isInside(source) != isInto else {
            let why = isInto ? "it is in an account already" : "it is in no account"
            throw CoveError(.invalidArgument, why, url: source)
        }
        guard try isInside(destination) == isInto else {
            let why = isInto ? "is in no account" : "is in an account"
            throw CoveError(.invalidArgument, "the destination \(why)", url: destination)
        }
        guard (try? System.lstat(destination.path)) == nil else { throw CoveError(.fileExists, url: destination) }
        if !isInto { try fetch() }
    }

    /// All at once, which is quicker than one after the other when they are copied.
    private func fetch() throws(CoveError) {
        do throws(CoveError) {
            guard let (service, location) = try ItemService.find(source) else { return }
            let request = ItemInterface.Request(path: PathParameter(location.remote), wait: true)
            _ = try service.stream("Download", request, as: ItemInterface.DownloadReply.self, for: source)
        } catch {
            // A program in a sandbox may not ask for it: what it reads is fetched then.
            guard error.code == .noDaemon || error.code == .accessDenied else { throw error }
        }
    }

    /// Moves, inside the claims on both; presenters of what was moved are told.
    ///
    /// Blocks.
    func carryOut(_ from: URL, _ to: URL, _ coordinator: FileCoordinator) throws(CoveError) {
        do throws(CrossingMove.Failure) {
            try CrossingMove(from: Array(from.path.utf8), to: Array(to.path.utf8), isCancelled: { Task.isCancelled })
                .run()
        } catch {
            let url = URL(fileURLWithPath: String(decoding: error.path, as: UTF8.self))
            let code = error.errno == .interrupted ? CoveError.Code.cancelled : .init(rawValue: error.errno.rawValue)
            throw CoveError(code, error.message, url: url, cause: error)
        }
        // It has moved, whether that can be told or not.
        try? coordinator.item(at: from, didMoveTo: to)
    }
}
