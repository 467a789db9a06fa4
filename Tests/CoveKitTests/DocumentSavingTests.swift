import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// What a save leaves on the disk, and what it must not lose.
@MainActor struct DocumentSavingTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func created(_ name: String = "doc.txt") async throws -> TextDocument {
        let document = TextDocument(fileURL: folder.url(name), clock: ManualClock())
        try await document.save(to: document.fileURL, for: .forCreating)
        return document
    }

    private func mode(_ url: URL) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions] as? Int
    }

    @Test func `packages are saved and read as one`() async throws {
        let url = folder.url("p.rtfd")
        let old = FileContents.package(["a": .file(Data("1".utf8)), "d": .package(["b": .file(Data("2".utf8))])])
        let new = FileContents.package(["a": .file(Data("3".utf8))])
        for contents in [old, new] {
            try SafeSave(url).run(isPackage: true, DocumentAttributes()) { try contents.write(to: $0) }
            #expect(try FileContents(contentsOf: url, reading: true) == contents)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["p.rtfd"])
        let bad = FileContents.package(["../x": .file(Data())])
        #expect(throws: (any Error).self) {
            try SafeSave(url).run(isPackage: true, DocumentAttributes()) { try bad.write(to: $0) }
        }
        #expect(try FileContents(contentsOf: url, reading: true) == new)
    }

    @Test func `what others write while a save goes on and fails is not the document's own`() async throws {
        let document = try await created()
        let file = document.fileURL
        document.whileWriting.withLock { body in
            body = {
                try "theirs".write(to: file, atomically: false, encoding: .utf8)
                throw CoveError(.noSpace)
            }
        }
        document.edit("mine")
        let full = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(full?.code == .noSpace)
        document.whileWriting.withLock { $0 = nil }
        for _ in 0..<2 {
            let stale = await #expect(throws: CoveError.self) { try await document.autosave() }
            #expect(stale?.code == .stale)
            #expect(try text(file) == "theirs")
        }
        try await document.revert()
        #expect(document.text == "theirs")
        try await document.close()
    }

    @Test func `what others write while a save goes on is not replaced by it`() async throws {
        let document = try await created()
        let file = document.fileURL
        document.whileWriting.withLock { body in
            body = { try "theirs".write(to: file, atomically: true, encoding: .utf8) }
        }
        document.edit("mine")
        let stale = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(stale?.code == .stale && document.hasUnsavedChanges)
        #expect(try text(file) == "theirs")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["doc.txt"])
        document.whileWriting.withLock { $0 = nil }
        let again = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(again?.code == .stale)
        // Whoever says so replaces it.
        try await document.save(to: file, for: .forCreating)
        #expect(try text(file) == "mine")
        document.edit("more")
        try await document.close()
        #expect(try text(file) == "more")
    }

    @Test func `at the end documents are saved side by side, and not waited for without an end`() async throws {
        let stuck = try await created("stuck.txt")
        let mayGoOn = DispatchSemaphore(value: 0)
        stuck.whileWriting.withLock { $0 = { mayGoOn.wait() } }
        var documents: [TextDocument] = [stuck]
        for number in 0..<3 { documents.append(try await created("\(number).txt")) }
        for document in documents { document.edit("newer") }
        let all = documents
        await FileThreads.run { Document.autosave(all, within: .seconds(3)) }
        for document in all.dropFirst() { #expect(try text(document.fileURL) == "newer") }
        #expect(try text(stuck.fileURL) == "new")
        stuck.whileWriting.withLock { $0 = nil }
        mayGoOn.signal()
        for document in all { try await document.close() }
        #expect(try text(stuck.fileURL) == "newer")
    }

    @Test func `a save keeps attributes, and what a symbolic link points at is saved in its place`() async throws {
        let file = try folder.make("real")
        let link = folder.url("link")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        let document = AttributedDocument(fileURL: link)
        try await document.open()
        document.edit("through the link")
        try await document.save(to: link, for: .forOverwriting)
        #expect(try text(file) == "through the link")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        try await document.close()
        let values = try FileContents(contentsOf: file)
        #expect(values == .file(Data("through the link".utf8)))
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(mode[.posixPermissions] as? Int == 0o604)
        #expect(mode[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_700_000_000))
    }

    @Test func `a package keeps its links, and each of its files its mode and attributes`() async throws {
        let url = folder.url("p.rtfd")
        for name in ["p.rtfd/d/tool", "p.rtfd/gone"] { _ = try folder.make(name) }
        try FileManager.default.createSymbolicLink(atPath: "\(url.path)/link", withDestinationPath: "d/tool")
        try FileManager.default.setAttributes([.posixPermissions: 0o750], ofItemAtPath: "\(url.path)/d/tool")
        let tool = try System.open("\(url.path)/d/tool", O_RDONLY)
        try System.setAttribute(tool, Array("user.color".utf8), Array("red".utf8))
        System.close(tool)
        guard case .package(var members) = try FileContents(contentsOf: url) else { throw CoveError(.other) }
        #expect(members["link"] == .symbolicLink(to: "d/tool"))
        members["gone"] = nil
        members["new"] = .file(Data("new".utf8))
        let contents = FileContents.package(members)
        try SafeSave(url).run(isPackage: true, DocumentAttributes()) { try contents.write(to: $0) }
        contents.noteSaved(at: url)
        #expect(try FileContents(contentsOf: url) != contents && members["new"] == .file(Data("new".utf8)))
        #expect(try mode(url.appendingPathComponent("d/tool")) == 0o750)
        let color = try System.attribute(Array("\(url.path)/d/tool".utf8), Array("user.color".utf8))
        #expect(color == Array("red".utf8))
        #expect(mkfifo("\(url.path)/fifo", 0o600) == 0)
        #expect(throws: CoveError.self) { try FileContents(contentsOf: url) }
    }

    @Test func `a file can become a package and a package a file`() async throws {
        let url = try folder.make("doc")
        for contents in [FileContents.package(["a": .file(Data("1".utf8))]), .file(Data("2".utf8))] {
            try SafeSave(url).run(isPackage: contents.isPackage, DocumentAttributes()) { try contents.write(to: $0) }
            #expect(try FileContents(contentsOf: url, reading: true) == contents)
            #expect(try mode(url) == (contents.isPackage ? 0o755 : 0o644))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["doc"])
    }

    @Test func `what replaces a private file is private while it is written`() async throws {
        let document = try await created()
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: document.fileURL.path)
        let seen = Mutex<Int?>(nil)
        let temporary = folder.url(".doc.txt.cove-save-0").path
        document.whileWriting.withLock { body in
            body = {
                let attributes = try FileManager.default.attributesOfItem(atPath: temporary)
                seen.withLock { $0 = attributes[.posixPermissions] as? Int }
            }
        }
        document.edit("secret")
        try await document.close()
        #expect(try seen.withLock { $0 } == 0o600 && mode(document.fileURL) == 0o600)
    }

    @Test func `31. a copy elsewhere leaves an edit unsaved`() async throws {
        let document = try await created()
        let copy = try folder.make("copy.txt", "old")
        document.edit("mine")
        try await document.save(to: copy, for: .forOverwriting)
        #expect(try text(copy) == "mine" && text(document.fileURL) == "new")
        #expect(document.hasUnsavedChanges && document.fileURL != copy)
        try await document.close()
        #expect(try text(document.fileURL) == "mine")
    }

    @Test func `31. an edit in the place of one that was taken back is unsaved`() async throws {
        let document = try await created()
        document.edit("one")
        try await document.autosave()
        document.updateChangeCount(.undone)
        #expect(document.hasUnsavedChanges)
        document.updateChangeCount(.redone)
        #expect(!document.hasUnsavedChanges)
        document.updateChangeCount(.undone)
        document.edit("two")
        #expect(document.hasUnsavedChanges)
        try await document.close()
        #expect(try text(document.fileURL) == "two")
    }

    @Test func `34. others' changes are not written over, through a link on the way either`() async throws {
        let link = folder.url("link")
        _ = try folder.make("real/doc.txt", "old")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: folder.url("real"))
        let url = link.appendingPathComponent("doc.txt")
        let document = TextDocument(fileURL: url, clock: ManualClock())
        try await document.open()
        document.edit("mine")
        try await document.autosave()
        #expect(document.fileURL == url)
        document.edit("mine again")
        try "theirs".write(to: url, atomically: true, encoding: .utf8)
        let error = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(try error?.code == .stale && text(url) == "theirs")
        // What could not be loaded is not written over, either.
        document.isBroken = true
        await #expect(throws: CoveError.self) { try await document.revert() }
        let again = await #expect(throws: CoveError.self) { try await document.save(to: url, for: .forOverwriting) }
        #expect(try again?.code == .stale && text(url) == "theirs")
        document.isBroken = false
        try await document.revert()
        #expect(document.text == "theirs")
        try await document.close()
    }

    @Test func `another type gives the file another name, which all hear of`() async throws {
        let document = try await created()
        let (old, new) = (document.fileURL, folder.url("doc.md"))
        let follower = NotingPresenter(old, messages: [.didMove])
        try await FileCoordinator.addFilePresenter(follower)
        document.type = "md"
        document.edit("marked down")
        _ = try folder.make("doc.md", "taken")
        let taken = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(try taken?.code == .fileExists && text(new) == "taken" && text(old) == "new")
        try FileManager.default.removeItem(at: new)
        document.whileWriting.withLock { $0 = { throw CoveError(.noSpace) } }
        await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(try text(old) == "new" && document.fileURL == old)
        document.whileWriting.withLock { $0 = nil }
        try await document.autosave()
        #expect(document.fileURL == new && document.fileType == "md" && document.documentState == .normal)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["doc.md"])
        try await blocking { try follower.events.wait(for: "moved doc.md") }
        document.edit("more")
        try await document.close()
        #expect(try text(new) == "more")
        await FileCoordinator.removeFilePresenter(follower)
    }

    @MainActor private final class AttributedDocument: Document, @unchecked Sendable {
        private var text = ""
        override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }
        override func load(fromContents contents: FileContents, ofType type: String) async throws {}
        func edit(_ text: String) {
            self.text = text
            updateChangeCount(.done)
        }
        override func fileAttributesToWrite(
            to url: URL,
            for operation: SaveOperation
        ) async throws -> DocumentAttributes {
            var attributes = DocumentAttributes()
            attributes.permissions = 0o604
            attributes.modificationDate = Date(timeIntervalSince1970: 1_700_000_000)
            return attributes
        }
    }
}
