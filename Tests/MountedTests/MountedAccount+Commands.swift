import CoveTestSupport
import Foundation
import Testing

extension MountedAccount {
    /// Runs `cove` in the mount, with words as a shell reads them; what it printed.
    @discardableResult
    func cove(_ words: String) throws -> String { try shell("$COVE \(words)") }

    /// Runs `cove` with `--json` and reads the one line it prints.
    func cove<Value: Decodable>(_ words: String, as type: Value.Type) throws -> Value {
        let text = try cove("\(words) --json")
        #expect(text.hasSuffix("\n") && text.dropLast().allSatisfy { $0 != "\n" }, "\(text)")
        return try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    /// Has a program take the mount over, as `cove upgrade` does, whatever becomes of that; waits for the daemon's end.
    func upgrade(to program: String) throws {
        try shell(
            """
            exec python3 -c '
            import json, socket, sys
            s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
            call = {"method": "io.cove.Account.Upgrade", "parameters": {"program": sys.argv[2]}}
            s.send(json.dumps(call).encode() + b"\\0")
            while s.recv(4096): pass
            ' $STATE/cove.sock "\(program)"
            """
        )
    }

    /// Runs a script whose last command must fail, and looks at its complaint: one line, nothing on standard output.
    func expectRefusal(
        _ script: String,
        _ line: String,
        status: Int32 = 1,
        location: SourceLocation = #_sourceLocation
    ) throws {
        let result = try start(script).wait(deadline: 60)
        let places = ["$mnt": mount, "$src": source.path, "$STATE": scratch.appending("state"), "$tmp": scratch.path]
        let known = ["$mnt", "$src", "$STATE", "$tmp"].reduce(result.error) { text, name in
            places[name].map { text.replacingOccurrences(of: $0, with: name) } ?? text
        }
        #expect(result.status == status && result.output.isEmpty, "\(result.output)", sourceLocation: location)
        #expect(known == "cove: \(line)\n", sourceLocation: location)
    }

    /// Every name below the account's folders, with its size and the time of its last change.
    func everything() throws -> String {
        try shell("find $tmp -mindepth 1 ! -type s -printf '%p %y %m %s %T@\\n' | sort")
    }
}
