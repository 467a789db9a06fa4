import Foundation
import Testing

/// The parts of the engine: each has state of its own, which nobody else touches, and calls only those below it.
@Suite struct EnginePartTests {
    /// A part, from the lowest on.
    struct Part: Sendable, CustomTestStringConvertible {
        let name: String
        let folder: String
        /// How others that have it call it.
        let accessor: String
        /// Objects with locks of their own, which others may use.
        var shared: Set<String> = []

        var testDescription: String { name }
    }

    static let parts = [
        Part(
            name: "Contents",
            folder: "Contents",
            accessor: "contents",
            shared: ["live", "store", "ledger", "departing"]
        ),
        Part(name: "Namespace", folder: "Namespace", accessor: "namespace", shared: ["tombstones", "localNames"]),
        Part(name: "RemoteChanges", folder: "RemoteChanges", accessor: "remoteChanges"),
        Part(name: "History", folder: "History", accessor: "history"),
        Part(name: "Thumbnails", folder: "Thumbnails", accessor: "thumbnails"),
        Part(name: "Coordinator", folder: "Coordination", accessor: "coordinator"),
        Part(name: "Access", folder: "Access", accessor: "access"),
    ]

    /// The most fields that a part may have beside the context and the parts below it.
    private static let mostFields = 12

    private static let engine = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources/CoveEngine").standardized

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: engine.appending(path: path), encoding: .utf8)
    }

    /// The sources of the engine, without their comments, by their paths.
    private static func sources() throws -> [(path: String, text: String)] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: engine.path).filter { $0.hasSuffix(".swift") }
        #expect(names.count > 100)
        return try names.sorted().map { name in
            let lines = try text(name).split(separator: "\n", omittingEmptySubsequences: false)
            let code = lines.filter { !$0.trimmingCharacters(in: .whitespaces).hasPrefix("//") }
            return (name, code.joined(separator: "\n"))
        }
    }

    /// The stored properties of a class, which are where its declarations are indented once.
    private static func fields(of name: String, in path: String) throws -> [String] {
        let source = try text(path)
        let start = try #require(source.range(of: "final class \(name)"))
        let end = try #require(source.range(of: "\n}\n", range: start.upperBound..<source.endIndex))
        var fields: [String] = []
        for line in source[start.upperBound..<end.lowerBound].split(separator: "\n") {
            guard let match = line.firstMatch(of: /^ {4}(?:(?:private|public) )?(?:let|var) (\w+)([^={]*)(.?)/),
                match.3 != "{"
            else { continue }
            fields.append(String(match.1))
        }
        return fields
    }

    private static func state(of part: Part) throws -> [String] {
        let others = Set(parts.map(\.accessor) + ["context"])
        return try fields(of: part.name, in: "\(part.folder)/\(part.name).swift").filter { !others.contains($0) }
    }

    @Test(arguments: parts)
    func `a part has few fields, and its README tells what guards each`(_ part: Part) throws {
        let state = try Self.state(of: part)
        #expect(!state.isEmpty && state.count <= Self.mostFields, "\(state)")
        let readme = try Self.text("\(part.folder)/README.md")
        let told = readme.matches(of: /(?m)^\| (`.*`) \|/).flatMap { row in
            row.1.matches(of: /`(\w+)`/).map { String($0.1) }
        }
        #expect(Set(told) == Set(state))
    }

    @Test func `the README tells what guards the engine's own state and the context's`() throws {
        let readme = try Self.text("README.md")
        let told = Set(readme.matches(of: /`(\w+)`/).map { String($0.1) })
        let accessors = Set(Self.parts.map(\.accessor) + ["context"])
        let constant: Set = ["configuration", "clock", "provider", "log"]
        for (name, path) in [("Engine", "Engine/Engine.swift"), ("EngineContext", "Engine/EngineContext.swift")] {
            let state = Set(try Self.fields(of: name, in: path)).subtracting(accessors).subtracting(constant)
            #expect(state.count > 3 && state.isSubset(of: told), "\(state.subtracting(told))")
        }
    }

    @Test(arguments: parts)
    func `nobody else touches a part's state`(_ part: Part) throws {
        let state = Set(try Self.state(of: part))
        #expect(part.shared.isSubset(of: state))
        var uses = 0
        for (path, text) in try Self.sources() where !path.hasPrefix(part.folder + "/") {
            for match in text.matches(of: try Regex<(Substring, Substring)>("\\b\(part.accessor)\\.(\\w+)")) {
                uses += 1
                let name = String(match.1)
                #expect(!state.contains(name) || part.shared.contains(name), "\(path): \(match.0)")
            }
        }
        #expect(uses > 3)
    }

    @Test func `a part calls only those below it`() throws {
        let sources = try Self.sources()
        for (index, part) in Self.parts.enumerated() {
            let mine = sources.filter { $0.path.hasPrefix(part.folder + "/") }
            #expect(!mine.isEmpty)
            for other in Self.parts[(index + 1)...] {
                let pattern = try Regex("\\b\(other.accessor)\\.|\\b\(other.name)\\b(?!\\+)")
                for (path, text) in mine {
                    #expect(text.firstMatch(of: pattern) == nil, "\(path) names \(other.name)")
                }
            }
        }
        // What the pattern is to find.
        #expect("try namespace.lookup(parent)".contains(try Regex("\\bnamespace\\.")))
    }

    @Test func `no file of the engine is longer than 400 lines, no folder has more than 15`() throws {
        var folders: [String: Int] = [:]
        let names = try FileManager.default.subpathsOfDirectory(atPath: Self.engine.path).filter {
            $0.hasSuffix(".swift")
        }
        for name in names {
            folders[(name as NSString).deletingLastPathComponent, default: 0] += 1
            let count = try Self.text(name).split(separator: "\n", omittingEmptySubsequences: false).count
            #expect(count <= 401, "\(name)")
        }
        for (folder, count) in folders { #expect(count <= 15, "\(folder)") }
    }
}
