internal import CoveCore
internal import Glibc

/// Moving items into an account and out of it.
extension CommandTable {
    private static let places = Command.Operands(names: ["SOURCE", "DESTINATION"], minimum: 2)
    private static let manner = """
        Both places are claimed meanwhile, and programs that present the item hear where it is. It is copied, put in place in one
        step, and removed where it was: cut off, it is whole in one place or in both. DESTINATION is the item's new name, and
        nothing may be there.
        """

    static let ubiquitousOn = Command(
        name: "ubiquitous on",
        summary: "move a file or folder into an account",
        operands: places,
        details: manner
    ) { arguments throws(Failure) in try UbiquitousMove(arguments, isInto: true).run(asJSON: arguments.has("json")) }

    static let ubiquitousOff = Command(
        name: "ubiquitous off",
        summary: "move a file or folder out of its account",
        operands: places,
        details: manner + " What is not on this disk is fetched first.\nOther devices see it deleted."
    ) { arguments throws(Failure) in try UbiquitousMove(arguments, isInto: false).run(asJSON: arguments.has("json")) }
}

/// A move to another file system, of which one side is in an account.
private struct UbiquitousMove {
    /// What `--json` says of it.
    private struct Moved: Encodable {
        var from: String
        var to: String
        var items: Int64
        var bytes: Int64
    }

    private let source: [UInt8]
    private let destination: [UInt8]
    private let isInto: Bool
    /// The side that is in an account, at the socket for claims.
    private let inside: ItemLocation
    private let shownSource: String
    private let shownDestination: String

    init(_ arguments: Arguments, isInto: Bool) throws(Failure) {
        self.isInto = isInto
        let paths = arguments.operands
        (shownSource, shownDestination) = (
            String(decoding: paths[0], as: UTF8.self), String(decoding: paths[1], as: UTF8.self)
        )
        (source, destination) = (try Self.absolute(paths[0]), try Self.absolute(paths[1]))
        let places = (try Self.place(paths[0]), try Self.place(paths[1]))
        guard (places.0 == nil) == isInto else {
            throw isInto
                ? Failure(
                    shownSource,
                    "it is in an account already",
                    "move it with mv, or name something outside of Cove's mounts"
                )
                : Failure(shownSource, "it is in no account", "name something inside a Cove mount")
        }
        guard let inside = isInto ? places.1 : places.0, (places.1 == nil) == !isInto else {
            throw isInto
                ? Failure(shownDestination, "it is in no account", "name a place inside a Cove mount")
                : Failure(shownDestination, "it is in an account", "name a place outside of Cove's mounts")
        }
        self.inside = inside
    }

    private static func place(_ path: [UInt8]) throws(Failure) -> ItemLocation? {
        do throws(ItemLocation.Failure) {
            return try ItemLocation.find(path, socket: .coordination)
        } catch .outside {
            return nil
        } catch {
            return try Failure.locating(path) { path throws(ItemLocation.Failure) in
                try ItemLocation.find(path, socket: .coordination)
            }
        }
    }

    private static func absolute(_ path: [UInt8]) throws(Failure) -> [UInt8] {
        try Failure.explaining(String(decoding: path, as: UTF8.self), remedy: "check the path") { () throws(Errno) in
            try ItemLocation.resolve(path)
        }
    }

    func run(asJSON: Bool) throws(Failure) -> Int32 {
        for (path, shown, isWanted) in [(source, shownSource, true), (destination, shownDestination, false)] {
            let isThere = (try? System.statat(AT_FDCWD, path)) != nil
            if isThere != isWanted {
                throw isWanted
                    ? Failure(shown, "no such item", "check the name")
                    : Failure(shown, "something is there already", "choose another name")
            }
        }
        if !isInto { try fetch() }
        let holder = try ClaimHolder.begin(inside.daemon, name: inside.shown)
        let path = PathParameter(inside.path)
        let intent = CoordinationInterface.Intent(writing: path, isInto ? .forReplacing : .forMoving)
        let reply = try holder.claim([intent], subject: inside.shown)
        let outcome = Result { () throws(Failure) in try move() }
        if case .success = outcome, !isInto {
            holder.movedOut(reply.claim, inside.path, to: String(decoding: destination, as: UTF8.self))
        }
        _ = holder.endHold()
        holder.release(reply.claim)
        let amount = try outcome.get()
        guard asJSON else { return 0 }
        try JSONOutput.write(
            Moved(
                from: String(decoding: source, as: UTF8.self),
                to: String(decoding: destination, as: UTF8.self),
                items: amount.items,
                bytes: amount.bytes
            )
        )
        return 0
    }

    private func move() throws(Failure) -> CrossingMove.Amount {
        let progress = ProgressBar()
        defer { progress.clear() }
        do throws(CrossingMove.Failure) {
            return try CrossingMove(
                from: source,
                to: destination,
                progress: { progress.show("\(shownSource): \(Units.size($0.bytes)) copied") }
            ).run()
        } catch {
            var failure = Failure(line: error.description)
            failure.errno = error.errno
            throw failure
        }
    }

    /// All at once, which is quicker than one after the other.
    private func fetch() throws(Failure) {
        let location = try Failure.locating(source)
        let progress = ProgressBar()
        defer { progress.clear() }
        let _: ItemInterface.DownloadReply = try AccountConnection(location.daemon, name: location.shown).stream(
            "\(ItemInterface.name).Download",
            ItemInterface.Request(path: PathParameter(location.path), wait: true),
            subject: shownSource
        ) { (reply: ItemInterface.DownloadReply) in
            guard let transfer = reply.progress else { return }
            progress.show(shownSource, done: transfer.doneBytes, total: transfer.totalBytes)
        }
    }
}
