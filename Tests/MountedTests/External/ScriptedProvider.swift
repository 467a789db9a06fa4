import CoveTestSupport
import Foundation

/// An account on a provider whose methods a test writes: the example in memory, with what is in `tree` to begin with.
///
/// In the script `here` is a folder that the test has as `$tmp/here`, `tree` a file there that is read at each look: a JSON
/// object of names and contents. `once(name)` is true the first time, over all its processes; `wait(name)` waits for a file.
enum ScriptedProvider {
    static func account(
        _ methods: String,
        tree: String = "{}",
        options: String = "poll=100ms,settle=10ms,log=debug",
        _ body: @escaping @Sendable (MountedAccount) throws -> Void
    ) async throws {
        try await blocking {
            let place = try TemporaryDirectory("p")
            let here = place.appending("here")
            try FileManager.default.createDirectory(atPath: here, withIntermediateDirectories: true)
            try Data(tree.utf8).write(to: URL(fileURLWithPath: here + "/tree"))
            let program = place.appending("provider")
            try Data(script(methods, here: here).utf8).write(to: URL(fileURLWithPath: program))
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: program)
            let account = try MountedAccount(options: options, address: "exec:\(program)")
            try account.start()
            do {
                try account.shell("ln -s \(here) $tmp/here")
                try body(account)
            } catch {
                let words = (try? account.shell("cat $STATE/provider.log; tail -80 $STATE/log")) ?? ""
                throw CommandFailure("\(error)\n\(words)")
            }
            try account.end()
            withExtendedLifetime(place) {}
        }
    }

    private static func script(_ methods: String, here: String) -> String {
        let lines = methods.split(separator: "\n", omittingEmptySubsequences: false).map { "    \($0)" }
        return """
            #!/usr/bin/python3
            \(providerModule("cove-memory"))
            import hashlib, json, os, time
            from cove_provider import Failed, distinct_names, serve, text
            here = "\(here)"
            def once(name):
                try:
                    os.close(os.open(f"{here}/{name}", os.O_CREAT | os.O_EXCL))
                    return True
                except FileExistsError:
                    return False
            def note(name, line):
                with open(f"{here}/{name}", "a") as file:
                    file.write(line + chr(10))
            def wait(name):
                while not os.path.exists(f"{here}/{name}"):
                    time.sleep(0.01)
            class Listed(module.Memory):
                def __init__(self):
                    super().__init__()
                    self.seen = {}
                def find(self, path):
                    with open(f"{here}/tree") as file:
                        wanted = json.load(file)
                    for name in [name for name in self.seen if name not in wanted]:
                        self.root.children.pop(name, None)
                    for name, content in wanted.items():
                        if self.seen.get(name) != content:
                            node = module.Node("file", content.encode())
                            # The same in each process.
                            node.id, node.version = name, hashlib.sha256(content.encode()).hexdigest()
                            node.described = node.version
                            self.root.children[name] = node
                    self.seen = wanted
                    return super().find(path)
            class Scripted(Listed):
                pass
            \(lines.joined(separator: "\n"))
            serve(Scripted())

            """
    }
}
