import Foundation
import Testing

/// Providers around other ones: what they do not pass on would be done without, and nobody would say so.
@Suite struct WrappingProviderTests {
    private static let sources = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Sources").standardized

    private static func calls(_ text: String) -> Set<String> {
        Set(text.matches(of: /(?m)^ +(?:public )?func (\w+)/).map { String($0.1) })
    }

    @Test(arguments: [
        "CoveCore/Provider/NotedProvider.swift", "CoveEngine/Access/NamingProvider.swift",
        "CoveProviders/Simulated/SimulatedLink.swift",
    ])
    func `a provider around another one passes on every call`(_ path: String) throws {
        let protocolText = try String(
            contentsOf: Self.sources.appending(path: "CoveCore/Provider/Provider.swift"),
            encoding: .utf8
        )
        let end = try #require(protocolText.range(of: "\n}\n"))
        let wanted = Self.calls(String(protocolText[..<end.lowerBound]))
        #expect(wanted.count > 20 && wanted.contains("publish"))
        let own = Self.calls(try String(contentsOf: Self.sources.appending(path: path), encoding: .utf8))
        #expect(wanted.subtracting(own) == [])
    }
}
