import Foundation
import Testing

/// What no source may do, because a number that somebody else sent would end the daemon by it.
///
/// Each rule is a pattern that the lines of the sources are searched for, and the files that may have it.
@Suite struct SourceRuleTests {
    /// A pattern, why it is not to be found, and where it may be.
    struct Rule: Sendable, CustomTestStringConvertible {
        let name: String
        let pattern: String
        let remedy: String
        var folders: [String] = []
        var files: [String] = []
        /// A line that the rule has to find, lest it finds nothing for having a mistake.
        let example: String

        var testDescription: String { name }
    }

    static let rules = [
        Rule(
            name: "Swift's own durations trap",
            pattern: #"\b(Duration|ContinuousClock|SuspendingClock)\b"#,
            remedy: "use TimeSpan, Timestamp or MonotonicTime",
            folders: ["CoveCore/Time/", "CoveKit/", "Samples/"],
            example: "let limit = Duration.seconds(reply.seconds)"
        ),
        Rule(
            name: "what a time is made of is for storage",
            pattern: #"\.((nano|milli)secondsSinceEpoch|(nano|milli)seconds)\b(?!\()"#,
            remedy: "compare, add and subtract Timestamp, MonotonicTime and TimeSpan themselves",
            folders: ["CoveCore/Time/"],
            files: [
                "CoveCore/System/Syscalls.swift", "CoveEngine/Catalog/Database.swift",
                "CoveEngine/Sync/Sending/SyncEngine+Trash.swift", "CoveProviders/HTTP/HTTPOptions.swift",
                "CoveProviders/External/Protocol/WireCalls.swift", "CoveProviders/External/Protocol/WireValues.swift",
                "CoveProviders/S3/Requests/S3Object.swift", "cove/Announcer/AnnouncerProcess.swift",
                "cove/Commands/CoordinationCommands.swift",
            ],
            example: "let age = now.nanosecondsSinceEpoch - date.nanosecondsSinceEpoch"
        ),
        Rule(
            name: "no arithmetic on what a time is made of",
            pattern: #"\.((nano|milli)secondsSinceEpoch|(nano|milli)seconds)\b(?!\() *[-+*/&<>|]|"#
                + #"[-+*/] *[\w.$()]+\.((nano|milli)secondsSinceEpoch|(nano|milli)seconds)\b(?!\()"#,
            remedy: "add and subtract Timestamp, MonotonicTime and TimeSpan themselves",
            folders: ["CoveCore/Time/"],
            example: "row.retry.millisecondsSinceEpoch + 5"
        ),
        Rule(
            name: "clocks are asked in one place",
            pattern: #"\bclock_gettime\b|\bgettimeofday\b"#,
            remedy: "ask System.now(), System.monotonic() or System.boottime()",
            files: ["CoveCore/System/Syscalls.swift"],
            example: "clock_gettime(CLOCK_REALTIME, &now)"
        ),
        Rule(
            name: "sizes are summed up without a trap",
            pattern: #"\breduce\(.*\+.*\b[sS]ize\b"#,
            remedy: "use saturatingAdd: each may be what a server told",
            example: "let total = rows.reduce(0) { $0 + $1.size }"
        ),
    ]

    private static let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources").standardized

    /// The lines of all sources without their comments, with where they are.
    private static func lines() throws -> [(place: String, file: String, text: String)] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { $0.hasSuffix(".swift") }
        #expect(names.count > 300)
        return try names.sorted().flatMap { name in
            let text = try String(contentsOf: sources.appending(path: name), encoding: .utf8)
            return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().compactMap {
                index,
                line in
                let line = line.trimmingCharacters(in: .whitespaces)
                return line.hasPrefix("//") ? nil : ("\(name):\(index + 1)", name, line)
            }
        }
    }

    @Test(arguments: rules)
    func `no source breaks the rule`(_ rule: Rule) throws {
        let pattern = try Regex(rule.pattern).wordBoundaryKind(.simple)
        #expect(rule.example.contains(pattern))
        for (place, file, text) in try Self.lines() where text.contains(pattern) {
            let isAllowed = rule.files.contains(file) || rule.folders.contains { file.hasPrefix($0) }
            #expect(isAllowed, "\(place): \(text): \(rule.remedy)")
        }
    }
}
