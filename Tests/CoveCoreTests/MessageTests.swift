import Testing

@testable import CoveCore

/// The keys of messages are a contract with scripts and other programs.
@Suite struct MessageTests {
    private static func keys(_ message: some Encodable) throws -> [String] {
        guard case .object(let members) = try JSONValue(encoding: message) else { return [] }
        return members.keys.sorted()
    }

    private static let item = ItemStatus(
        path: "d/a",
        name: "a",
        kind: "file",
        state: "partial",
        isDirty: true,
        isUploading: false,
        isDownloading: true,
        isPinned: false,
        policy: "lazily-and-evict",
        hasConflict: false,
        size: 10,
        localBytes: 4,
        percent: 40,
        modificationTime: 1.5,
        permissions: 0o644,
        user: 1,
        group: 2,
        itemID: 7,
        documentID: "x",
        contentVersion: "v",
        remoteID: "r",
        error: "e"
    )

    @Test func `an item's members`() throws {
        let text = try JSONValue(encoding: Self.item).description
        #expect(
            text == #"{"contentVersion":"v","documentID":"x","error":"e","group":2,"hasConflict":false,"isDirty":true,"#
                + #""isDownloading":true,"isPinned":false,"isUploading":false,"itemID":7,"kind":"file","localBytes":4,"#
                + #""modificationTime":1.5,"name":"a","path":"d/a","percent":40,"permissions":420,"#
                + #""policy":"lazily-and-evict","remoteID":"r","size":10,"state":"partial","user":1}"#
        )
        #expect(try JSONValue(encoding: Self.item).decode(as: ItemStatus.self) == Self.item)
    }

    @Test func `the members of statistics`() throws {
        #expect(
            try Self.keys(Statistics()) == [
                "announcements", "bytes_downloaded", "bytes_uploaded", "conflicts", "content_updates", "daemon_pid",
                "deletions", "dirty_items", "downloads_started", "fuse_requests", "items", "keeper_pid",
                "memory_bytes", "moves", "open_handles", "parked_requests", "provider_requests", "queued_operations",
                "read_hits", "read_misses", "resident_bytes", "thumbnails_fetched", "thumbnails_made",
                "thumbnails_sent",
            ]
        )
    }

    @Test func `the members of an account's status`() throws {
        let transfer = TransferStatus(path: "a", direction: "upload", doneBytes: 1, totalBytes: 2, bytesPerSecond: 3)
        let error = ItemError(path: "a", message: "m", retryInSeconds: 4)
        let status = AccountStatus(
            account: "a",
            source: "s",
            mountpoint: "/m",
            stateDirectory: "/s",
            state: "offline",
            reason: "r",
            queuedOperations: 1,
            transfers: [transfer],
            conflicts: 2,
            errors: [error],
            errorCount: 5,
            residentBytes: 3,
            cacheLimit: 4,
            weaknesses: ["w"],
            requestsLastHour: 5,
            requestCostLastHour: 0.5
        )
        #expect(
            try Self.keys(status) == [
                "account", "cacheLimit", "conflicts", "errorCount", "errors", "mountpoint", "queuedOperations",
                "reason", "requestCostLastHour", "requestsLastHour", "residentBytes", "source", "state",
                "stateDirectory", "transfers", "weaknesses",
            ]
        )
        #expect(try Self.keys(transfer) == ["bytesPerSecond", "direction", "doneBytes", "path", "totalBytes"])
        #expect(try Self.keys(error) == ["message", "path", "retryInSeconds"])
        #expect(try JSONValue(encoding: status).decode(as: AccountStatus.self) == status)
    }

    @Test func `the members of the other messages`() throws {
        let conflict = ConflictStatus(path: "a", copyPath: "b", host: "h", time: 1)
        #expect(try Self.keys(conflict) == ["copyPath", "host", "path", "time"])
        let entry = TrashEntry(documentID: "d", path: "a", time: 1, size: 2, location: "local")
        #expect(try Self.keys(entry) == ["documentID", "location", "path", "size", "time"])
        let finding = DoctorFinding(check: "c", level: "ok", message: "m", remedy: "r")
        #expect(try Self.keys(finding) == ["check", "level", "message", "remedy"])
        #expect(
            try Self.keys(SyncReport(isSettled: true, remaining: 0, errors: [])) == [
                "errors", "isSettled", "remaining",
            ]
        )
    }

    @Test func `a path that is no UTF-8 travels as base64`() throws {
        let path = RemotePath(unchecked: [0x61, 0x2F, 0xFF])
        let parameter = PathParameter(path)
        #expect(parameter.path == nil && parameter.pathBase64 == "YS//")
        #expect(try parameter.remotePath() == path)
        #expect(try Self.keys(parameter) == ["path_base64"])
        let request = ItemInterface.Request(path: parameter, wait: true)
        #expect(try Self.keys(request) == ["path_base64", "wait"])
        let read = try JSONValue(encoding: request).decode(as: ItemInterface.Request.self)
        #expect(read.path == parameter && read.wait == true)
    }

    @Test(arguments: [("", ""), ("/", ""), ("/a//b/", "a/b"), ("a", "a")])
    func `a path is made of its names`(text: String, joined: String) throws {
        var parameter = PathParameter(.root)
        parameter.path = text
        #expect(try parameter.remotePath()?.bytes == Array(joined.utf8))
    }

    @Test(arguments: ["..", "a/../b", "./a", "a\0b"]) func `a path can't climb`(text: String) {
        var parameter = PathParameter(.root)
        parameter.path = text
        #expect(throws: VarlinkError.invalidParameter("path")) { try parameter.remotePath() }
    }

    @Test(arguments: [AccountInterface.definition, ItemInterface.definition])
    func `a definition names each member once`(definition: String) {
        let members = definition.split(separator: "\n").compactMap { line -> String? in
            let words = line.split { $0 == " " || $0 == "(" }
            guard let first = words.first, ["type", "method", "error"].contains(first), words.count > 1 else {
                return nil
            }
            return String(words[1])
        }
        #expect(members.count > 5)
        #expect(Set(members).count == members.count)
    }
}
