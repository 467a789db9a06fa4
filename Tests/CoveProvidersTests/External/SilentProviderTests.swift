import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// Providers in Python of which a call never ends: the library says that it goes on only for so long.
@Suite(.timeLimit(.minutes(2)))
struct SilentProviderTests {
    /// A provider whose first listing waits for a file `go`, and which may know that it is at work.
    private static func provider(in folder: TemporaryDirectory, _ knowledge: String) throws -> ExternalProvider {
        let script = """
            #!/usr/bin/python3
            import os, sys, time
            sys.dont_write_bytecode = True
            sys.path.insert(0, "\(FileManager.default.currentDirectoryPath)/Providers")
            import cove_provider
            here = "\(folder.path)"
            class Provider:
                asked = 0
                def hello(self, parameters, call):
                    return {"name": "silent", "identity": "silent", "capabilities": {}}
                def list(self, parameters, call):
                    while not os.path.exists(here + "/go"):
                        time.sleep(0.01)
                    return {"items": []}
            \(knowledge)
            server = cove_provider.Server(Provider())
            server.PAUSE, server.PATIENCE = 0.1, 0.5
            server.run()
            """
        let path = folder.appending("provider")
        try put(script + "\n", path)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        let program = try #require(try ProviderProgram(source: "exec:\(path)"))
        var limits = ProviderSession.Limits()
        limits.silence = .seconds(4)
        return ExternalProvider(program, state: folder.path, limits: limits) { _ in }
    }

    @Test(arguments: ["", "    def is_at_work(self):\n        raise KeyError('nothing')"])
    func `a call that waits for what never comes is given up`(knowledge: String) async throws {
        let folder = try TemporaryDirectory()
        let provider = try Self.provider(in: folder, knowledge)
        let error = await #expect(throws: ProviderError.self) { try await provider.list(.root, page: nil) }
        #expect(error == .timedOut)
        // The program is as it was.
        try put("", folder.appending("go"))
        #expect(try await provider.list(.root, page: nil).items.isEmpty)
        await provider.stop()
    }

    @Test func `a provider that knows that it is at work is waited for`() async throws {
        let folder = try TemporaryDirectory()
        let provider = try Self.provider(
            in: folder,
            """
                def is_at_work(self):
                    self.asked += 1
                    # Longer than anybody is silent.
                    if self.asked == 80:
                        open(here + "/go", "w").close()
                    return True
            """
        )
        #expect(try await provider.list(.root, page: nil).items.isEmpty)
        await provider.stop()
    }
}
