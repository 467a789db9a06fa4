import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// Files that come to their names by a MOVE, beside other devices and what they left.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct WebDAVPlacingTests {
    private static let apache = Result { try TestServer.apache() }
    private static let rclone = Result { try TestServer.rcloneWebDAV() }
    private static let nginx = Result { try TestServer.nginx() }

    /// A folder of a server, also as it lies on the disk.
    struct Source: Sendable {
        let server: TestServer
        let name = "\(DocumentID.random())"
        var folder: String { "\(server.files)/\(name)" }

        init(_ server: Result<TestServer, any Error>) throws {
            self.server = try server.get()
            try self.server.makeCollection(name)
        }

        func device(
            patience: TimeSpan = .seconds(15),
            uploads: String? = nil,
            through port: UInt16? = nil
        ) async throws -> WebDAVProvider {
            let dav = try WebDAVProvider(
                try #require(SourceAddress("webdav://127.0.0.1:\(port ?? server.port)/\(name)")),
                HTTPOptions(),
                uploads: uploads,
                patience: patience,
                credentials: { testCredentials }
            )
            try await dav.start()
            return dav
        }

        func left(_ path: String = "") throws -> [String] {
            try rawNames("\(folder)/\(path)").filter { $0.hasPrefix(".cove") || $0.hasPrefix("cove-") }
        }
    }

    @Test func `an address without a user is another source for each who logs in`() async throws {
        let source = try Source(Self.apache)
        let dav = try await source.device()
        #expect(await dav.sourceIdentity() == Array("user:\(testCredentials.user)".utf8))
        let named = try WebDAVProvider(
            try #require(
                SourceAddress("webdav://\(testCredentials.user)@127.0.0.1:\(source.server.port)/\(source.name)")
            ),
            HTTPOptions(),
            credentials: { testCredentials }
        )
        try await named.start()
        // The account's record has the address, with the user.
        #expect(await named.sourceIdentity() == nil)
    }

    @Test func `many in one folder share a listing, and each knows its own version`() async throws {
        let source = try Source(Self.apache)
        let dav = try await source.device()
        let made = try await withThrowingTaskGroup(of: RemoteItem.self) { group in
            for number in 0..<64 { group.addTask { try await dav.make("file \(number)", "text \(number)") } }
            return try await group.reduce(into: [:]) { $0[String(decoding: $1.name, as: UTF8.self)] = $1 }
        }
        for item in try await dav.everything() {
            let name = String(decoding: item.name, as: UTF8.self)
            #expect(made[name] == item)
            #expect(try await dav.text(name, item.contentVersion) == name.replacing("file", with: "text"))
        }
        #expect(try source.left() == [])
    }

    @Test(arguments: [0, 1])
    func `what a device that was killed tried the server out with goes at its next start`(which: Int) async throws {
        let source = try Source([Self.apache, Self.rclone][which])
        let state = try TemporaryDirectory("uploads")
        let killed = try await source.device(uploads: state.path)
        let folder = "\(source.folder)/\(try #require(killed.probeFolder.name))"
        try FileManager.default.createDirectory(atPath: folder + "/n", withIntermediateDirectories: true)
        try put("x", folder + "/n/m")
        let next = try await source.device(uploads: state.path)
        #expect(try source.left() == [] && !next.capabilities.readOnly)
        _ = try await next.make("file", "text")
    }

    @Test(arguments: [0, 1, 2])
    func `what has a hidden name for a while is seen by every device, and its directory is not deleted`(
        which: Int
    ) async throws {
        let source = try Source([Self.apache, Self.rclone, Self.nginx][which])
        let (here, there) = (try await source.device(), try await source.device())
        try await here.makeDirectory("directory")
        let file = try await here.make("directory/file", "text")
        let name = PassingName(.random(), since: System.now(), original: try #require(FileName("file"))).name
        let directory = here.reference("directory")
        let item = here.reference("directory/file", file)
        let hidden = try await here.move(item, base: file.contentVersion, to: directory, name: name)
        #expect(hidden.name == name.bytes)
        let path = "directory/\(name)"
        // rclone keeps a listing for a second.
        let deadline = System.monotonic() + .seconds(30)
        while try await there.list(there.reference("directory"), page: nil).items.map(\.name) != [name.bytes] {
            try #require(System.monotonic() < deadline, "the item in passing is not listed")
        }
        #expect(try await there.find(path).kind == .file)
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await there.delete(there.reference("directory"), base: .directory)
        }
        let place = try #require(FileName("shown"))
        _ = try await there.move(there.reference(path), base: hidden.contentVersion, to: .root, name: place)
        #expect(try await here.text("shown") == "text")
        #expect(try source.left("directory").filter { $0.contains("moving") } == [])
    }

    @Test func `a name that looks like a hidden one is a name as any other, or refused where it would be one`()
        async throws
    {
        let names = [
            "cove-deleting-old-account-backups.md", "cove-moving-\(DocumentID.random())", "cove-moving-house-plans",
        ]
        let passing = PassingName(.random(), since: System.now(), original: try #require(FileName("file"))).name
        let mistaken = [
            "\(passing)", Leftover.deleting(RemotePath(unchecked: Array("file".utf8)), .directory).description,
        ].map { String($0.dropFirst()) }
        for server in [Self.apache, Self.nginx] {
            let source = try Source(server)
            let device = try await source.device()
            for name in names { _ = try await device.make(name, name) }
            #expect(try await device.names() == names.sorted())
            for name in mistaken {
                do {
                    _ = try await device.make(name, name)
                    #expect(try device.server().hidesDotNames == false)
                    #expect(try await device.names().contains(name))
                } catch ProviderError.unsupported {}
            }
        }
    }

    @Test(arguments: [0, 1, 2])
    func `a deletion that was cut off is ended by whoever sees it, and takes nothing else along`(
        which: Int
    ) async throws {
        let source = try Source([Self.apache, Self.rclone, Self.nginx][which])
        let (here, there) = (try await source.device(), try await source.device())
        let now = Int64(time(nil))
        // Of the second one another version was meant; the third may yet be on its way.
        for (name, began) in [("meant", now - 120), ("another", now - 120), ("young", now)] {
            let item = try await here.make(name, "text of \(name)")
            let path = RemotePath(unchecked: Array(name.utf8))
            let meant = name == "another" ? ContentVersion(Array("old".utf8)) : item.contentVersion
            let dotted = Leftover.deleting(path, meant, since: began).description
            let hidden = which == 2 ? String(dotted.dropFirst()) : dotted
            try FileManager.default.moveItem(
                atPath: "\(source.folder)/\(name)",
                toPath: "\(source.folder)/\(hidden)"
            )
        }
        let deadline = System.monotonic() + .seconds(30)
        // nginx keeps its folder for hidden names.
        func left() throws -> [String] { try source.left().filter { $0 != ".cove-uploads" } }
        while try await there.names() != ["another"] || left().count > 1 {
            let left = try left()
            try #require(System.monotonic() < deadline, "\(left)")
        }
        #expect(try await there.text("another") == "text of another")
        #expect(try left().allSatisfy { $0.hasSuffix("young") })
    }

    @Test(arguments: [0, 1, 2])
    func `what comes into a directory between the look at it and its deletion stays`(which: Int) async throws {
        let source = try Source([Self.apache, Self.rclone, Self.nginx][which])
        let (port, late) = (source.server.port, "\(source.folder)/directory/late")
        let front = try ScriptedServer { request in
            // The directory was found to be empty, and is about to be put aside.
            if request.method == "MOVE" { try? put("text", late) }
            return .handOn(port)
        }
        let dav = try await source.device(through: front.port)
        let directory = try await dav.makeDirectory("directory")
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await dav.delete(dav.reference("directory", directory), base: nil)
        }
        #expect(try String(contentsOfFile: late, encoding: .utf8) == "text")
    }

    @Test(arguments: [0, 1, 2], [false, true])
    func `a directory whose deletion was cut off comes back with what came into it, or goes`(
        which: Int,
        isFilled: Bool
    ) async throws {
        let source = try Source([Self.apache, Self.rclone, Self.nginx][which])
        let (port, late) = (source.server.port, "\(source.folder)/directory/late")
        let front = try ScriptedServer { request in
            // What was put aside is never heard of again from that device.
            if request.target.contains("cove-deleting-") { return .hangUp }
            if request.method == "MOVE", isFilled { try? put("text", late) }
            return .handOn(port)
        }
        let (dying, there) = (try await source.device(through: front.port), try await source.device())
        let directory = try await dying.makeDirectory("directory")
        await #expect(throws: ProviderError.self) {
            try await dying.delete(dying.reference("directory", directory), base: nil)
        }
        let hidden = try #require(try source.left().first { $0.contains("cove-deleting-") })
        let path = RemotePath(unchecked: Array("directory".utf8))
        let old = Leftover.deleting(path, .directory, since: Int64(time(nil)) - 120).description
        try FileManager.default.moveItem(
            atPath: "\(source.folder)/\(hidden)",
            toPath: "\(source.folder)/\(which == 2 ? String(old.dropFirst()) : old)"
        )
        let deadline = System.monotonic() + .seconds(30)
        let shown = isFilled ? ["directory"] : []
        while try await there.names() != shown || source.left().contains(where: { $0.contains("cove-deleting-") }) {
            let left = try source.left()
            try #require(System.monotonic() < deadline, "\(left)")
        }
        if isFilled { #expect(try await there.text("directory/late") == "text") }
    }

    @Test(arguments: [0, 1])
    func `a folder of many items is not listed for each new one`(which: Int) async throws {
        let source = try Source([Self.apache, Self.rclone][which])
        for number in 0..<1100 { try put("x", "\(source.folder)/item \(number)") }
        let (here, there) = (try await source.device(), try await source.device())
        let first = try await here.make("first", "one")
        #expect(try source.left() == [])
        let second = try await here.make("second", "two")
        #expect(try source.left() == [".cove-uploads"])
        for (name, item) in [("first", first), ("second", second)] { #expect(try await there.find(name) == item) }
        let changed = try await here.modify(
            here.reference("second", second),
            base: second.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("three")
        )
        #expect(try await there.text("second", changed.contentVersion) == "three")
        // One that does not know of it yet, against one that does.
        for number in 0..<20 {
            let fresh = number.isMultiple(of: 5) ? try await source.device() : there
            let made = await withTaskGroup(of: (String, RemoteItem)?.self) { group in
                for (text, provider) in [("here", here), ("there", fresh)] {
                    group.addTask { (try? await provider.make("both \(number)", text)).map { (text, $0) } }
                }
                var made: [(String, RemoteItem)] = []
                for await item in group { if let item { made.append(item) } }
                return made
            }
            #expect(made.count == 1)
            if let (text, item) = made.first {
                #expect(try await here.text("both \(number)", item.contentVersion) == text)
            }
        }
        #expect(try source.left(".cove-uploads") == [])
        #expect(try await there.names().count == 1122)
    }

    @Test(arguments: [0, 1, 2])
    func `what a device that was killed was sending goes when it looks there again`(which: Int) async throws {
        let source = try Source([Self.apache, Self.rclone, Self.nginx][which])
        let state = try TemporaryDirectory("uploads")
        let killed = try await source.device(uploads: state.path)
        let isInside = try killed.server().hidesDotNames
        let name = try #require(FileName("file"))
        if isInside { try source.server.makeCollection("\(source.name)/.cove-uploads") }
        let folder = isInside ? ".cove-uploads" : ""
        let stage = isInside ? RemotePath([WebDAVProvider.stageName]) : .root
        let left = killed.stages.name(for: name, isInside: isInside).name
        let other = StagedName(for: name, owner: "00000000", isInside: isInside).name
        for name in [left, other] {
            let answer = try await killed.put(stage.appending(name), MemorySource("half"), [])
            #expect(answer.head.isSuccess)
        }
        // It may be under way still, as far as its own device knows.
        _ = try await killed.make("first", "text")
        #expect(try source.left(folder).sorted() == ["\(left)", "\(other)"].sorted())
        let next = try await source.device(uploads: state.path)
        _ = try await next.make("second", "text")
        for _ in 0..<6000 where try source.left(folder) != ["\(other)"] {
            try await Task.sleep(for: TimeSpan.milliseconds(10))
        }
        #expect(try source.left(folder) == ["\(other)"])
    }

    @Test func `what a device left that never comes back is in nobody's way for long`() async throws {
        let source = try Source(Self.apache)
        let name = try #require(FileName("file"))
        let flag = StagedName(for: name, owner: "00000000").name
        try put("left", "\(source.folder)/\(flag)")
        let patient = try await source.device()
        await #expect(throws: ProviderError.busy) { try await patient.make("file", "text") }
        // Others' names are not its.
        _ = try await patient.make("other", "text")
        let hasty = try await source.device(patience: .milliseconds(300))
        let made = try await hasty.make("file", "text")
        #expect(try await hasty.text("file", made.contentVersion) == "text")
        #expect(try source.left() == ["\(flag)"])
    }

    @Test func `a folder for hidden names that somebody deleted is made again`() async throws {
        let source = try Source(Self.apache)
        for number in 0..<1001 { try put("x", "\(source.folder)/item \(number)") }
        let dav = try await source.device()
        for name in ["first", "second"] { _ = try await dav.make(name, name) }
        try FileManager.default.removeItem(atPath: "\(source.folder)/.cove-uploads")
        let made = try await dav.make("third", "third")
        #expect(try await dav.text("third", made.contentVersion) == "third")
        try FileManager.default.removeItem(atPath: source.folder)
        await #expect(throws: ProviderError.noSuchItem) { try await dav.make("fourth", "fourth") }
    }
}
