import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension Mounted {
    /// Bookmarks, scopes and containers as programs on CoveKit have them; the numbers are those of the acceptance checklist.
    struct KitBookmarkTests {
        private static let app = "com.b.app"

        /// A document of plain text.
        @MainActor private final class Note: Document, @unchecked Sendable {
            var text = ""

            override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }

            override func load(fromContents contents: FileContents, ofType type: String) async throws {
                text = String(decoding: try await contents.read(), as: UTF8.self)
            }
        }

        private func given(_ body: @escaping @Sendable (MountedAccount, URL) async throws -> Void) async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try await body(account, URL(fileURLWithPath: account.mount, isDirectory: true))
            }
        }

        @Test func `65. a container's folder is the app's first, or the one that it names, and nobody else's`()
            async throws
        {
            try await given { account, root in
                let files = FileManager.default
                let own = await files.url(forUbiquityContainerIdentifier: nil, app: Self.app, in: root)
                #expect(own?.path == root.appending(path: "b").path)
                let named = await files.url(forUbiquityContainerIdentifier: "com.b.box", app: Self.app, in: root)
                #expect(named == own)
                for identifier in ["com.a.box", "com.none.box", "", "no identifier"] {
                    let other = await files.url(forUbiquityContainerIdentifier: identifier, app: Self.app, in: root)
                    #expect(other == nil, "\(identifier)")
                }
                let stranger = await files.url(forUbiquityContainerIdentifier: nil, app: "com.none.app", in: root)
                #expect(stranger == nil)
            }
        }

        @Test func `79. to 82. a bookmark has values, finds its document again, and says when it is stale`()
            async throws
        {
            try await given { account, root in
                let url = root.appending(path: "a/Documents/report.txt")
                let keys = [
                    "FileSecurity", "ContentModificationDate", "FileResourceIdentifier", "FileResourceType",
                    "LocalizedName",
                ]
                let bookmark = try await Bookmark.make(
                    of: url,
                    options: [.withSecurityScope],
                    including: keys,
                    relativeTo: root.appending(path: "a"),
                    app: Self.app
                )
                #expect(Set(bookmark.values.keys) == Set(keys) && bookmark.values["LocalizedName"] == "report.txt")
                let kept = try JSONDecoder().decode([Bookmark].self, from: JSONEncoder().encode([bookmark]))
                #expect(kept == [bookmark])
                let file = URL(fileURLWithPath: account.scratch.appending("kept"))
                for _ in 0..<2 { try bookmark.write(to: file) }
                #expect(try Bookmark(contentsOf: file) == bookmark)
                let resolve = "stat -c %a $tmp/kept; $COVE bookmark resolve \"$(cat $tmp/kept)\" --app \(Self.app)"
                #expect(try account.shell(resolve) == "600\n\(url.path)\n")
                for (content, code) in [("", CoveError.Code.invalidArgument), ("no bookmark", .invalidArgument)] {
                    try Data(content.utf8).write(to: file)
                    #expect { try Bookmark(contentsOf: file) } throws: { ($0 as? CoveError)?.code == code }
                }
                let missing = URL(fileURLWithPath: account.scratch.appending("missing"))
                #expect { try Bookmark(contentsOf: missing) } throws: { ($0 as? CoveError)?.code == .noSuchFile }
                #expect { try bookmark.write(to: missing.appending(path: "x")) } throws: { $0 is CoveError }
                try account.killDaemon()
                let found = try await bookmark.resolve(app: Self.app)
                #expect(found.document.url.path == url.path && !found.isStale && !found.document.isReadOnly)
                try account.shell("mv a/Documents/report.txt a/Documents/other.txt")
                let moved = try await bookmark.resolve(app: Self.app)
                #expect(moved.document.url.lastPathComponent == "other.txt" && moved.isStale)
                // Its folder has another place, and is told where.
                try account.shell("mkdir a/Documents/d; mv a/Documents/other.txt a/Documents/d/report.txt")
                let relative = try await Bookmark.make(
                    of: root.appending(path: "a/Documents/d/report.txt"),
                    relativeTo: root.appending(path: "a/Documents/d"),
                    app: Self.app
                )
                try account.shell("mv a/Documents/d a/Documents/e")
                let again = try await relative.resolve(relativeTo: root.appending(path: "a/Documents/e"), app: Self.app)
                #expect(again.document.url.path.hasSuffix("e/report.txt") && !again.isStale)
                do {
                    _ = try await bookmark.resolve(app: "com.a.app")
                    Issue.record("another app's bookmark was resolved")
                } catch let error as CoveError {
                    #expect(error.code == .accessDenied)
                }
                var altered = bookmark.data
                altered[altered.count - 1] ^= 1
                let forged = Bookmark(data: altered)
                do {
                    _ = try await forged.resolve(app: Self.app)
                    Issue.record("an altered bookmark was resolved")
                } catch let error as CoveError {
                    #expect(error.code == .accessDenied)
                }
                try account.shell("rm a/Documents/e/report.txt")
                do {
                    _ = try await relative.resolve(app: Self.app)
                    Issue.record("what was deleted was found")
                } catch let error as CoveError {
                    #expect(error.code == .noSuchFile)
                }
                #expect(Bookmark(data: Data([1, 2, 3])).values.isEmpty)
            }
        }

        /// What a program is told within a time in which no account that hangs would have answered.
        private func told<Value: Sendable>(
            _ what: String,
            _ ask: @escaping @Sendable () async throws -> Value
        ) throws -> Value {
            let answer = Mutex<Result<Value, any Error>?>(nil)
            Task {
                do {
                    let value = try await ask()
                    answer.withLock { $0 = .success(value) }
                } catch {
                    answer.withLock { $0 = .failure(error) }
                }
            }
            try waitUntil("it is told \(what)", deadline: 20) { answer.withLock { $0 != nil } }
            return try #require(answer.withLock { $0 }).get()
        }

        private func failure<Value: Sendable>(
            _ what: String,
            _ ask: @escaping @Sendable () async throws -> Value
        ) throws -> CoveError? {
            do { _ = try told(what, ask) } catch let error as CoveError { return error }
            return nil
        }

        @Test func `an account that hangs holds up no bookmark of another, and one that died is named`() async throws {
            try await blocking {
                let silent = try MountedAccount()
                try silent.start()
                try await given { account, root in
                    let url = root.appending(path: "a/Documents/report.txt")
                    let bookmark = try await Bookmark.make(of: url, relativeTo: root, app: Self.app)
                    let foreign = Bookmark(data: bookmark.data + [0])
                    let daemon = try pid_t(silent.statistics().daemonPID)
                    #expect(kill(daemon, SIGSTOP) == 0)
                    defer { kill(daemon, SIGCONT) }
                    let found = try told("where it is") {
                        try await bookmark.resolve(relativeTo: root, app: Self.app)
                    }
                    #expect(found.document.url.path == url.path && !found.isStale)
                    // A program learns at once that it may not use a bookmark, too.
                    let stranger = try failure("whose it is") { try await bookmark.resolve(app: "com.a.app") }
                    #expect(stranger?.code == .accessDenied)
                    let grant = try #require(try account.cove("grants ls", as: [AccessInterface.Grant].self).first)
                    try account.cove("grants revoke \(grant.id)")
                    let revoked = try failure("that it was revoked") { try await bookmark.resolve(app: Self.app) }
                    #expect(revoked?.code == .accessDenied)
                    let folder = try told("the container") {
                        await FileManager.default.url(forUbiquityContainerIdentifier: nil, app: Self.app)
                    }
                    // Another account of this user may have such a container too.
                    #expect(folder != nil)
                    kill(daemon, SIGCONT)
                    try silent.die()
                    let error = try failure("who died") { try await foreign.resolve(app: Self.app) }
                    let isNamed = error?.message.contains(silent.mount) == true
                    #expect(error?.code == .noDaemon && isNamed, "\(error as Any)")
                }
            }
        }

        @Test func `72. a document is used between start and stop, and an extra stop is harmless`() async throws {
            try await given { account, root in
                let bookmark = try await Bookmark.make(
                    of: root.appending(path: "a/Documents/report.txt"),
                    app: Self.app
                )
                let document = try await bookmark.resolve(app: Self.app).document
                let place = try #require(await document.startAccessing())
                func read() -> String? { try? String(contentsOf: place, encoding: .utf8) }
                #expect(read() == "original\n")
                let again = await document.startAccessing()
                #expect(again == place)
                await document.stopAccessing()
                #expect(read() == "original\n")
                await document.stopAccessing()
                #expect(read() == nil)
                await document.stopAccessing()
                #expect(read() == nil)
                let grant = try #require(try account.cove("grants ls", as: [AccessInterface.Grant].self).first)
                try account.cove("grants revoke \(grant.id)")
                let revoked = await document.startAccessing()
                #expect(revoked == nil)
            }
        }

        @MainActor private func edit(_ note: Note?, _ text: String) async throws {
            note?.text = text
            note?.updateChangeCount(.done)
            if let note { try await note.save(to: note.fileURL, for: .forOverwriting) }
        }

        @Test func `73. a document that is opened between a start and a stop is loaded, and can be saved`() async throws
        {
            try await given { account, root in
                let bookmark = try await Bookmark.make(
                    of: root.appending(path: "a/Documents/report.txt"),
                    app: Self.app
                )
                let scoped = try await bookmark.resolve(app: Self.app).document
                let place = try #require(await scoped.startAccessing())
                func read() -> String? { try? String(contentsOf: place, encoding: .utf8) }
                var note: Note? = Note(fileURL: place)
                let opening = Task { [note] in try await note?.open() }
                await scoped.stopAccessing()
                try await opening.value
                #expect(await note?.text == "original\n")
                // A stop too many takes nothing from it.
                await scoped.stopAccessing()
                try await edit(note, "edited\n")
                #expect(try account.shell("cat a/Documents/report.txt") == "edited\n")
                // Another use of it ends without the document's.
                let again = try #require(await scoped.startAccessing())
                #expect(again == place)
                await scoped.stopAccessing()
                #expect(read() == "edited\n")
                // What may only be read is not replaced either, and a name of that kind is made nowhere.
                let readable = try await Bookmark.make(
                    of: root.appending(path: "a/Documents/report.txt"),
                    options: [.withSecurityScope, .securityScopeAllowOnlyReadAccess],
                    app: "com.c.app"
                )
                try account.addApp("c", document: "own.txt", "own\n")
                let readOnly = try await readable.resolve(app: "com.c.app").document
                let shown = try #require(await readOnly.startAccessing())
                for name in [shown.path, "\(account.mount)/.external-\(String(repeating: "0", count: 32))-x"] {
                    let result = try account.start("echo new > c/new; mv -T c/new '\(name)'").wait(deadline: 30)
                    #expect(result.status == 1 && result.error.contains("cannot move"), "\(result)")
                }
                #expect(try account.shell("cat '\(shown.path)'; ls -A") == "edited\na\nb\nc\n")
                try await note?.close()
                note = nil
                try waitUntil("its use has ended with it") { read() == nil }
            }
        }
    }
}
