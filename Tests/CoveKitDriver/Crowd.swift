import CoveKit
import Foundation
import Glibc

/// What programs do that are many on the same files.
@MainActor enum Crowd {
    /// `race A B COUNT`: adds a line to both, so many times.
    static func race(_ urls: [URL], _ count: Int) async throws {
        let line = "\(getpid())\n"
        for _ in 0..<count {
            let intents = urls.map { FileAccessIntent.writingIntent(with: $0) }
            try await FileCoordinator().coordinate(with: intents) {
                for intent in intents {
                    let text = try String(contentsOf: intent.url, encoding: .utf8)
                    try (text + line).write(to: intent.url, atomically: false, encoding: .utf8)
                }
            }
        }
        say("raced")
    }

    /// `circle A B`: two operations that hold one each, and then want the other's too; says how they ended.
    nonisolated static func circle(_ one: URL, _ two: URL) async {
        let meeting = Meeting(of: 2)
        let ends = await withTaskGroup(of: String.self) { group in
            for (own, other) in [(one, two), (two, one)] {
                group.addTask {
                    do {
                        return try await FileCoordinator().coordinate(writingItemAt: own) { _ in
                            meeting.come()
                            return try await FileCoordinator().coordinate(writingItemAt: other) { _ in "both" }
                        }
                    } catch {
                        return "failed: \(CoveError(error).code.rawValue)"
                    }
                }
            }
            var ends: [String] = []
            for await end in group { ends.append(end) }
            return ends
        }
        say(ends.sorted().joined(separator: ", "))
    }

    /// `lines PATH COUNT`: reads again and again until there are so many lines, each of which must be whole.
    static func lines(_ url: URL, _ count: Int) async throws {
        var seen = 0
        while seen < count {
            let text = try await FileCoordinator().coordinate(readingItemAt: url) {
                try String(contentsOf: $0, encoding: .utf8)
            }
            let lines = text.split(separator: "\n")
            guard text.isEmpty || text.hasSuffix("\n"), lines.allSatisfy({ Int($0) != nil }), lines.count >= seen else {
                return say("torn: \(text)")
            }
            seen = lines.count
        }
        say("whole")
    }

    /// `append PATH COUNT`: opens a document, adds a line and saves, so many times; what others wrote meanwhile stays.
    static func append(_ url: URL, _ count: Int) async throws {
        for _ in 0..<count {
            let document = SayingDocument(fileURL: url)
            try await document.open()
            while true {
                document.text += "\(getpid())\n"
                document.updateChangeCount(.done)
                do throws(CoveError) {
                    try await document.save(to: document.fileURL, for: .forOverwriting)
                    break
                } catch {
                    guard error.code == .stale else { throw error }
                    // A reader may have had the line saved already.
                    if !document.hasUnsavedChanges { break }
                    try await document.revert()
                }
            }
            try await document.close()
        }
        say("appended")
    }

    /// `count STOP PATH…`: adds one to the number in one of the documents, again and again until there is a file STOP; says how
    /// often, for each.
    static func count(_ urls: [URL], until stop: String) async throws {
        var counts = Dictionary(uniqueKeysWithValues: urls.map { ($0.lastPathComponent, 0) })
        while access(stop, F_OK) != 0, let url = urls.randomElement() {
            let document = SayingDocument(fileURL: url)
            try await document.open()
            while true {
                guard let number = number(in: document.text) else { return say("torn: \(document.text)") }
                document.text = "\(number + 1) end\n"
                document.updateChangeCount(.done)
                do throws(CoveError) {
                    try await document.autosave()
                    break
                } catch {
                    guard error.code == .stale else { throw error }
                    try await document.revert()
                }
            }
            counts[url.lastPathComponent, default: 0] += 1
            try await document.close()
        }
        say(String(decoding: try JSONEncoder().encode(counts), as: UTF8.self))
    }

    /// `follow STOP PATH`: keeps a document open until there is a file STOP; its number must never be a part, nor go down.
    static func follow(_ url: URL, until stop: String) async throws {
        let document = SayingDocument(fileURL: url)
        try await document.open()
        var last = 0
        while access(stop, F_OK) != 0 {
            guard let number = number(in: document.text), number >= last else {
                return say("torn: \(document.text) after \(last)")
            }
            last = number
            try await Task.sleep(for: .milliseconds(5))
        }
        try await document.revert()
        say("followed to \(document.text.dropLast(5))")
        try await document.close()
    }

    /// The number of a text like `7 end`.
    private static func number(in text: String) -> Int? {
        text.hasSuffix(" end\n") ? Int(text.dropLast(5)) : nil
    }
}

/// Where threads wait until all have come.
private final class Meeting: @unchecked Sendable {
    private let condition = NSCondition()
    // Touched only while the condition is locked.
    private var missing: Int

    init(of count: Int) { missing = count }

    func come() {
        condition.lock()
        defer { condition.unlock() }
        missing -= 1
        condition.broadcast()
        while missing > 0 { condition.wait() }
    }
}
