import CoveKit
import Foundation
import Glibc
import Synchronization

/// A program on CoveKit that does what its arguments say, one step after the other, and prints what happens.
///
/// Each argument is a verb and its words. A step that fails prints `failed: ERRNO MESSAGE`.
@main @MainActor struct Driver {
    static func main() async {
        Document.autosaveOnTermination()
        var driver = Driver()
        for argument in CommandLine.arguments.dropFirst() {
            let words = argument.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
            do { try await driver.run(words[0], Array(words.dropFirst())) } catch {
                let error = CoveError(error)
                say("failed: \(error.code.rawValue) \(error.message)")
            }
        }
    }

    private var presenter: SayingPresenter?
    private var document: SayingDocument?
    private var coordinator = FileCoordinator()
    /// How often documents that are opened later save by themselves.
    private var interval = Duration.seconds(10)

    private mutating func run(_ verb: String, _ words: [String]) async throws {
        switch verb {
        case "say": say(words.joined(separator: " "))
        case "interval": interval = .milliseconds(Int(words[0]) ?? 0)
        case "gate": await gate(words[0])
        case "coordinator": try newCoordinator(words)
        case "policy":
            if let policy = FileCoordinator.OpenFilePolicy(rawValue: words[0]) { coordinator.openFilePolicy = policy }
        case "present", "unpresent", "unsaved", "refuse", "presented": try await present(verb, words)
        case "read", "write", "delete", "move", "hold", "nested", "race", "prepare", "upload", "cancel", "keep", "zip",
            "measure",
            "lines", "circle":
            try await coordinate(verb, words)
        case "create", "open", "edit", "save", "autosave", "close", "revert", "state", "text", "url", "at", "crash",
            "watch", "append", "count", "follow":
            try await edit(verb, words)
        case "versions", "choose", "resolve", "forget", "recover", "swap", "describe": try await version(verb, words)
        case "identity", "identities", "enter", "leave", "container", "bookmark", "link": try await handle(verb, words)
        case "take", "distant", "pictures": try await use(verb, words)
        case "residency":
            let current = try await FileVersion.currentVersionOfItem(at: URL(fileURLWithPath: words[0]))
            say(current.map { $0.hasLocalContents ? "local" : "dataless" } ?? "nothing")
        default:
            say("what is \(verb)?")
            exit(2)
        }
    }

    private mutating func newCoordinator(_ words: [String]) throws {
        coordinator = FileCoordinator(filePresenter: words.first == "presenting" ? presenter : nil)
        if let purpose = words.first, purpose != "presenting" { try coordinator.setPurposeIdentifier(purpose) }
    }

    // MARK: Presenters

    private mutating func present(_ verb: String, _ words: [String]) async throws {
        switch verb {
        case "present":
            let presenter = SayingPresenter(URL(fileURLWithPath: words[0]), Set(words.dropFirst()))
            try await FileCoordinator.addFilePresenter(presenter)
            self.presenter = presenter
            say("presenting")
        case "unpresent":
            if let presenter { await FileCoordinator.removeFilePresenter(presenter) }
            say("removed")
        case "unsaved": presenter?.unsaved = words.joined(separator: " ")
        case "refuse": presenter?.refusal = words.joined(separator: " ")
        default: say("at \(presenter?.presentedItemURL?.path ?? "-")")
        }
    }

    // MARK: Claims

    private mutating func coordinate(_ verb: String, _ words: [String]) async throws {
        let coordinator = coordinator
        let urls = words.map { URL(fileURLWithPath: $0) }
        switch verb {
        case "read":
            let options: FileCoordinator.ReadingOptions = words.contains("withoutChanges") ? .withoutChanges : []
            let text = try await coordinator.coordinate(readingItemAt: urls[0], options: options) {
                try String(contentsOf: $0, encoding: .utf8)
            }
            say("read: \(text)")
        case "write":
            let text = words.dropFirst().joined(separator: " ")
            let url = try await coordinator.coordinate(writingItemAt: urls[0]) { url in
                try text.write(to: url, atomically: true, encoding: .utf8)
                return url
            }
            say("wrote \(url.path)")
        case "delete":
            try await coordinator.coordinate(writingItemAt: urls[0], options: .forDeleting) {
                try FileManager.default.removeItem(at: $0)
            }
            say("deleted")
        case "move":
            let gate = words.dropFirst(2).first
            try await coordinator.coordinate(
                writingItemAt: urls[0],
                options: .forMoving,
                writingItemAt: urls[1],
                options: .forReplacing
            ) { from, to in
                if let gate {
                    say("holding")
                    passGate(gate)
                }
                guard rename(from.path, to.path) == 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
                try coordinator.item(at: from, didMoveTo: to)
            }
            say("moved")
        case "hold": try await hold(words)
        case "nested": try await nest(words)
        case "race": try await Crowd.race(Array(urls.dropLast()), Int(words[words.count - 1]) ?? 0)
        case "circle": await Crowd.circle(urls[0], urls[1])
        case "prepare": try await prepare(urls)
        case "upload": try await upload(urls)
        case "keep":
            let gate = words[1]
            try await coordinator.coordinate(readingItemAt: urls[0]) { _ in
                say("keeping")
                passGate(gate)
            }
        case "zip":
            let place = try await coordinator.coordinate(readingItemAt: urls[0], options: .forUploading) { url in
                try FileManager.default.copyItem(at: url, to: urls[1])
                say(url.pathExtension)
                return url
            }
            say("left: \(FileManager.default.fileExists(atPath: place.path) ? 1 : 0)")
        case "lines": try await Crowd.lines(urls[0], Int(words[1]) ?? 0)
        case "measure": measure(urls[0], Int(words[1]) ?? 0)
        default: try await cancel(words)
        }
    }

    /// `hold PATH GATE [OPTION]`: says where the item is, and holds it until the gate opens.
    private func hold(_ words: [String]) async throws {
        let options: [String: FileCoordinator.WritingOptions] = [
            "forDeleting": .forDeleting, "forMoving": .forMoving, "forMerging": .forMerging,
            "forReplacing": .forReplacing,
        ]
        let gate = words[1]
        let option: FileCoordinator.WritingOptions =
            words.dropFirst(2).first.flatMap { options[$0] } ?? []
        try await coordinator.coordinate(writingItemAt: URL(fileURLWithPath: words[0]), options: option) { url in
            say("holding \(url.path)")
            for file in coordinator.openFiles { say("open: \(file.program) \(file.process) \(file.url.path)") }
            passGate(gate)
        }
        say("released")
    }

    /// `cancel PATH GATE`: waits for a reading, until the gate opens and it is cancelled.
    private func cancel(_ words: [String]) async throws {
        let coordinator = coordinator
        let (url, path) = (URL(fileURLWithPath: words[0]), words[1])
        let reading = Task { try await coordinator.coordinate(readingItemAt: url) { _ in say("read") } }
        await gate(path)
        coordinator.cancel()
        try await reading.value
    }

    /// `nested A B GATE`: holds A, then, once the gate is open, wants B too.
    private func nest(_ words: [String]) async throws {
        let coordinator = coordinator
        let (first, second, gate) = (URL(fileURLWithPath: words[0]), URL(fileURLWithPath: words[1]), words[2])
        try await coordinator.coordinate(writingItemAt: first) { _ in
            say("holding")
            passGate(gate)
            try await coordinator.coordinate(writingItemAt: second) { _ in say("both") }
        }
        say("released")
    }

    /// `measure PATH COUNT`: how many claims a second one thread gets, each with its own coordinator.
    private func measure(_ url: URL, _ count: Int) {
        func claims() throws {
            for _ in 0..<count { try FileCoordinator().coordinate(writingItemAt: url) { _ in } }
        }
        let clock = ContinuousClock()
        let time = clock.measure { try? claims() }
        say("\(Int(Double(count) / (time / .seconds(1)))) claims/s")
    }

    /// `prepare PATH…`: asks for all, then reads each without asking again.
    private func prepare(_ urls: [URL]) async throws {
        let coordinator = coordinator
        try await coordinator.prepare(forReadingItemsAt: urls, writingItemsAt: []) {
            say("prepared")
            for url in urls {
                try await coordinator.coordinate(readingItemAt: url, options: .withoutChanges) {
                    _ = try Data(contentsOf: $0)
                }
            }
        }
        say("read \(urls.count)")
    }

    /// `upload PATH PATH`: the two readings for uploading of the classic tutorial.
    private func upload(_ urls: [URL]) async throws {
        let intents = urls.map { FileAccessIntent.readingIntent(with: $0, options: .forUploading) }
        let paths = try await coordinator.coordinate(with: intents) {
            for intent in intents { say("snapshot: \(try String(contentsOf: intent.url, encoding: .utf8))") }
            return intents.map(\.url.path)
        }
        say("left: \(paths.filter { FileManager.default.fileExists(atPath: $0) }.count)")
    }

    // MARK: Documents

    private mutating func edit(_ verb: String, _ words: [String]) async throws {
        if verb == "create" || verb == "open" {
            let document = SayingDocument(fileURL: URL(fileURLWithPath: words[0]), autosaveInterval: interval)
            self.document = document
            if verb == "open" {
                try await document.open()
            } else {
                document.text = words.dropFirst().joined(separator: " ")
                try await document.save(to: document.fileURL, for: .forCreating)
            }
            return say("open: \(document.text)")
        }
        switch verb {
        case "append": return try await Crowd.append(URL(fileURLWithPath: words[0]), Int(words[1]) ?? 0)
        case "count": return try await Crowd.count(words.dropFirst().map { URL(fileURLWithPath: $0) }, until: words[0])
        case "follow": return try await Crowd.follow(URL(fileURLWithPath: words[1]), until: words[0])
        default: break
        }
        guard let document else { return say("no document") }
        switch verb {
        case "edit":
            document.text = words.joined(separator: " ")
            document.updateChangeCount(.done)
        case "save":
            try await document.save(to: document.fileURL, for: .forOverwriting)
            say("saved")
        case "autosave": try await document.autosave()
        case "close":
            try await document.close()
            say("closed")
        case "revert":
            try await document.revert()
            say("reverted: \(document.text)")
        case "state": say("state \(document.documentState.rawValue)")
        case "text": say("text: \(document.text)")
        case "url": say("url \(document.fileURL.path)")
        case "at":
            while document.fileURL.path != words[0] { try await Task.sleep(for: .milliseconds(5)) }
            say("at \(words[0])")
        case "crash": document.crashes.withLock { $0 = true }
        default: await watch(document, until: words[0])
        }
    }

    /// `watch TEXT`: waits until the document is closed, in conflict, saved, not to be saved, or has the text.
    private func watch(_ document: SayingDocument, until wanted: String) async {
        func isThere() -> Bool {
            switch wanted {
            case "closed": document.documentState.contains(.closed)
            case "saved": !document.hasUnsavedChanges
            case "failure": document.documentState.contains(.savingError)
            case "conflict": document.documentState.contains(.inConflict)
            case "resolved": !document.documentState.contains(.inConflict)
            default: document.text == wanted && !document.documentState.contains(.progressAvailable)
            }
        }
        let changes = document.stateChanges
        if !isThere() {
            for await _ in changes where isThere() { break }
        }
        say("watched \(wanted)")
    }

    // MARK: Versions

    private func version(_ verb: String, _ words: [String]) async throws {
        let url = URL(fileURLWithPath: words[0])
        let conflicts = try await FileVersion.unresolvedConflictVersionsOfItem(at: url)
        switch verb {
        case "versions":
            for version in try await FileVersion.otherVersionsOfItem(at: url) {
                let text = String(decoding: try await version.contents(), as: UTF8.self)
                let isNew = version.modificationDate.timeIntervalSinceNow > -3600
                let origin = "\(version.localizedNameOfSavingComputer ?? "-") \(isNew ? "today" : "once")"
                say("version\(version.isConflict ? " conflict" : "") \(origin): \(text)")
            }
            say("current \(try await FileVersion.currentVersionOfItem(at: url)?.size ?? -1)")
        case "choose": for version in conflicts.prefix(1) { try await version.replaceItem() }
        case "resolve":
            var (first, again) = (0, 0)
            for version in conflicts {
                if try await version.resolve() { first += 1 }
                if try await version.resolve() || !version.isResolved { again += 1 }
            }
            say("resolved \(first) of \(conflicts.count), again \(again)")
        case "recover": try await recover(url)
        case "swap": return try await swap(url, Int(words[1]) ?? 0)
        case "describe": return try await describe(url)
        default: try await FileVersion.removeOtherVersionsOfItem(at: url)
        }
        say("done")
    }
}

extension Driver {
    /// `recover PATH`: gives a document its oldest version again, alone with it.
    func recover(_ url: URL) async throws {
        let text = try await FileCoordinator().coordinate(writingItemAt: url) { url in
            guard let version = try await FileVersion.otherVersionsOfItem(at: url).last else { return "nothing" }
            try await version.replaceItem()
            return try String(contentsOf: url, encoding: .utf8)
        }
        say("recovered \(text)")
    }

    /// `swap PATH COUNT`: gives a document its newest version again, so many times, and reads it at once.
    func swap(_ url: URL, _ count: Int) async throws {
        for number in 1...count {
            guard let version = try await FileVersion.otherVersionsOfItem(at: url).first else { return say("nothing") }
            let expected = String(decoding: try await version.contents(), as: UTF8.self)
            try await version.replaceItem()
            let text = try String(contentsOf: url, encoding: .utf8)
            guard text == expected else { return say("\(number): \(text) instead of \(expected)") }
        }
        say("swapped")
    }

    /// `describe PATH`: all that is known of its versions.
    func describe(_ url: URL) async throws {
        let current = try await FileVersion.currentVersionOfItem(at: url)
        for version in try await [current].compactMap({ $0 }) + FileVersion.otherVersionsOfItem(at: url) {
            var words = [version.isCurrent ? "current" : version.isConflict ? "conflict" : "version"]
            words.append(version.hasLocalContents ? "local" : "dataless")
            words.append(version.isResolved ? "resolved" : "unresolved")
            if !version.isCurrent, let place = version.url {
                let folder = version.documentURL.deletingLastPathComponent().path
                words.append(String(place.path.dropFirst(folder.count + 1)))
                if let name = version.originatorNameComponents {
                    words += ["by"] + [name.nickname, name.givenName, name.familyName].compactMap { $0 }
                }
                words.append(try String(contentsOf: place, encoding: .utf8))
            }
            say(words.joined(separator: " "))
        }
    }
}

/// Writes a line at once.
func say(_ line: String) {
    var bytes = Array((line + "\n").utf8)
    _ = Glibc.write(1, &bytes, bytes.count)
}

/// Waits until somebody writes a byte to a fifo.
func passGate(_ path: String) {
    var byte: UInt8 = 0
    // Open for writing as well, there is always a writer: a read waits for a byte and never finds an end.
    let file = Glibc.open(path, O_RDWR | O_CLOEXEC)
    precondition(file >= 0, "there is no gate at \(path)")
    while Glibc.read(file, &byte, 1) != 1 {}
    Glibc.close(file)
}

/// The same, off the main actor.
func gate(_ path: String) async {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread {
            passGate(path)
            continuation.resume()
        }
    }
}
