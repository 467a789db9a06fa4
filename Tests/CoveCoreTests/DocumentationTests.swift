import Foundation
import Testing

/// What the pages say of files, functions and each other.
@Suite struct DocumentationTests {
    /// A page, by its path from the top.
    private struct Page {
        let path: String
        /// Its text without fenced code.
        let prose: String

        /// The addresses of its headings, as a renderer of Markdown makes them.
        var anchors: Set<String> {
            let headings = prose.split(separator: "\n").filter { $0.hasPrefix("#") }
            return Set(
                headings.map { heading in
                    let words = heading.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces).lowercased()
                    let kept = words.filter { $0.isLetter || $0.isNumber || " -_".contains($0) }
                    return kept.replacingOccurrences(of: " ", with: "-")
                }
            )
        }
    }

    private static let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardized

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: top.appending(path: path), encoding: .utf8)
    }

    private static func page(_ path: String) throws -> Page {
        var isCode = false
        let lines = try text(path).split(separator: "\n", omittingEmptySubsequences: false).filter { line in
            if line.hasPrefix("```") { isCode.toggle() }
            return !isCode && !line.hasPrefix("```")
        }
        return Page(path: path, prose: lines.joined(separator: "\n"))
    }

    private static func pages() throws -> [Page] {
        let folders = ["Documentation.docc", "Sources", "Tests"]
        var paths = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
        for folder in folders {
            let names = try FileManager.default.subpathsOfDirectory(atPath: top.appending(path: folder).path)
            paths += names.filter { $0.hasSuffix(".md") }.sorted().map { "\(folder)/\($0)" }
        }
        return try paths.map(page)
    }

    @Test func `the README is short`() throws {
        let lines = try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count <= 151, "150 lines, the last of which ends")
    }

    @Test func `relative links lead to files and headings that are there`() throws {
        let link = try Regex(#"\]\(([^)\s]+)\)"#, as: (Substring, Substring).self)
        let pages = try Self.pages()
        var count = 0
        for page in pages {
            let folder = Self.top.appending(path: page.path).deletingLastPathComponent()
            for match in page.prose.matches(of: link) where !match.1.contains("://") {
                count += 1
                let parts = match.1.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
                let target = parts[0].isEmpty ? page.path : String(parts[0])
                let file = (parts[0].isEmpty ? Self.top : folder).appending(path: target).standardized
                #expect(FileManager.default.fileExists(atPath: file.path), "\(page.path): \(match.1)")
                guard parts.count == 2 else { continue }
                let other = pages.first { Self.top.appending(path: $0.path).standardized == file }
                #expect(other?.anchors.contains(String(parts[1])) == true, "\(page.path): \(match.1)")
            }
        }
        #expect(count > 60)
    }

    @Test func `the walks name functions of the sources`() throws {
        let prose = try Self.page("CONTRIBUTING.md").prose.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let hop = try Regex(#"`(\w+)` \(`(Sources/[^`]+)`\)"#, as: (Substring, Substring, Substring).self)
        let hops = prose.matches(of: hop)
        #expect(hops.count > 150)
        for match in hops {
            let source = try? Self.text(String(match.2))
            let declaration = try Regex(#"\b(func|let) \#(match.1)\b"#).wordBoundaryKind(.simple)
            #expect(source?.contains(declaration) == true, "\(match.2) has no \(match.1)")
        }
        // Whoever writes a path otherwise has it checked as well.
        let path = try Regex(#"`(Sources/[^`]+)`"#, as: (Substring, Substring).self)
        for match in prose.matches(of: path) {
            let file = Self.top.appending(path: String(match.1)).path
            #expect(FileManager.default.fileExists(atPath: file), "\(match.1)")
        }
    }

    @Test func `the newest release of the changelog has a date and the program's version`() throws {
        let changes = try Self.text("CHANGELOG.md")
        let release = try #require(changes.firstMatch(of: /(?m)^## (\d+\.\d+\.\d+), (\d{4}-\d\d-\d\d)$/))
        #expect(try Self.text("Sources/cove/CommandLine/Tool.swift").contains("\"\(release.1)\""))
    }
}
