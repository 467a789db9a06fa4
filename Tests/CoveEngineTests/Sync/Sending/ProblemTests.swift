import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Items of the source that can't be here.
@Suite(.timeLimit(.minutes(30))) struct ProblemTests {
    @Test func `a bad item that is renamed at the source, mended, or goes, is told of no more`() async throws {
        try await blocking {
            let cloud = try ScriptedCloud()
            for folder in ["d", "d/e"] { cloud.makeFolder(folder) }
            for path in ["bad", "d/bad", "d/e/bad", "mended-bad", "fine"] { cloud.put(path, [1]) }
            // Of these the server tells no size.
            cloud.rewrite { request, reply in
                guard request.method == "PROPFIND" else { return }
                reply.rewriteText { text in
                    text.components(separatedBy: "<d:response>").map { part in
                        guard part.contains("bad</d:href>") else { return part }
                        return part.replacingOccurrences(of: "getcontentlength", with: "unknown")
                    }.joined(separator: "<d:response>")
                }
            }
            func change(_ method: String, _ path: String, to target: String? = nil) throws {
                let home = "http://127.0.0.1:\(cloud.server.port)\(ScriptedCloud.home)"
                var arguments = ["-sf", "-u", "\(TestServer.user):\(TestServer.password)", "-X", method]
                if let target { arguments += ["-H", "Destination: \(home)/\(target)"] }
                try Command.run("curl", arguments + ["\(home)/\(path)"])
            }
            try await SourceAccount.with(cloud.source) { account in
                func expect(_ paths: [String]) async throws {
                    await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                    try waitUntil("bad are \(paths)") {
                        let status = account.engine.accountStatus()
                        return status.state == "idle" && status.errors.map(\.path).sorted() == paths
                    }
                }
                for path in ["", "d", "d/e"] { _ = try account.tree.list(path) }
                try await expect(["bad", "d/bad", "d/e/bad", "mended-bad"])
                try change("MOVE", "bad", to: "good")
                try await expect(["d/bad", "d/e/bad", "mended-bad"])
                try change("DELETE", "d/bad")
                try await expect(["d/e/bad", "mended-bad"])
                try change("DELETE", "d")
                try await expect(["mended-bad"])
                cloud.rewrite(nil)
                try await expect([])
                #expect(try account.tree.list("").keys.sorted() == ["fine", "good", "mended-bad"])
            }
        }
    }
}
