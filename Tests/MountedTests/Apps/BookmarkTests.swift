import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Bookmarks and scopes; the numbers are those of the acceptance checklist.
    struct BookmarkTests {
        private func given(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await mounted(options: "settle=1s") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                try body(account)
            }
        }

        private func resolve(_ token: String, _ account: MountedAccount, _ words: String = "") throws
            -> AccessInterface.ResolveReply
        {
            try account.cove(
                "bookmark resolve '\(token)' --app com.b.app \(words)",
                as: AccessInterface.ResolveReply.self
            )
        }

        private func make(_ path: String, _ account: MountedAccount, _ words: String = "") throws -> String {
            String(try account.cove("bookmark create '\(path)' --app com.b.app \(words)").dropLast())
        }

        @Test func `79. a bookmark has values that are read without resolving it, and outlives the daemon`()
            async throws
        {
            try await given { account in
                let keys = [
                    "FileSecurity", "ContentModificationDate", "FileResourceIdentifier", "FileResourceType",
                    "LocalizedName",
                ]
                let token = try make(
                    "a/Documents/report.txt",
                    account,
                    keys.map { "--key \($0)" }.joined(separator: " ") + " --relative-to a"
                )
                let values = try JSONValue(
                    parsing: Array(try account.cove("bookmark resolve '\(token)' --values").dropLast().utf8)
                )
                #expect(values["LocalizedName"]?.text == "report.txt" && values["FileResourceType"]?.text == "file")
                #expect(values["FileSecurity"]?["mode"] == .integer(0o644) && values["FileSize"] == nil)
                try account.killDaemon()
                let found = try resolve(token, account)
                #expect(found.path == "\(account.mount)/a/Documents/report.txt" && !found.isStale && !found.isReadOnly)
                try account.crash()
                try account.start()
                #expect(try resolve(token, account).path == found.path)
                try account.expectRefusal(
                    "$COVE bookmark create a/Documents/report.txt --app com.b.app --key Nonsense 2>&1 | sed 's/; known.*//' >&2; false",
                    "a/Documents/report.txt: Nonsense: no such value"
                )
            }
        }

        @Test func `80. and 81. what happens to a document, and what its bookmark says then`() async throws {
            try await given { account in
                struct Row {
                    var event: String
                    var script: String
                    var isFound: Bool
                    var isStale = false
                    var words = ""
                    var made = ""
                    /// Whose document it is.
                    var owner = "b"
                    var refusal = "not there any more"
                }
                let rows = [
                    Row(event: "nothing", script: "true", isFound: true),
                    Row(event: "an edit", script: "echo more >> d/doc.txt", isFound: true),
                    Row(event: "a rename", script: "mv d/doc.txt d/other.txt", isFound: true, isStale: true),
                    Row(event: "a move", script: "mkdir e; mv d/doc.txt e/doc.txt", isFound: true, isStale: true),
                    Row(event: "a safe save", script: "echo new > d/.t; mv d/.t d/doc.txt", isFound: true),
                    Row(
                        event: "moved, and another file at the old path",
                        script:
                            "mkdir e; mv d/doc.txt e/doc.txt; cp /etc/hostname d/new; $COVE sync --wait; mv d/new d/doc.txt",
                        isFound: true,
                        isStale: true
                    ),
                    Row(
                        event: "deleted, and a new file at the old path",
                        script:
                            "rm d/doc.txt; $COVE sync --wait; $COVE trash empty >/dev/null; echo x > d/x; $COVE sync --wait; mv d/x d/doc.txt",
                        isFound: true,
                        isStale: true
                    ),
                    Row(
                        event: "deleted, and a new file at the old path, minimal",
                        script: "rm d/doc.txt; $COVE sync --wait; echo x > d/x; $COVE sync --wait; mv d/x d/doc.txt",
                        isFound: false,
                        made: "--minimal"
                    ),
                    Row(event: "deleted", script: "rm d/doc.txt", isFound: false),
                    Row(event: "evicted", script: "$COVE sync --wait; $COVE evict d/doc.txt", isFound: true),
                    Row(
                        event: "its folder has another place, which is told",
                        script: "mkdir e; mv d e/f",
                        isFound: true,
                        words: "--relative-to e/f",
                        made: "--relative-to d"
                    ),
                    Row(
                        event: "the daemon ends",
                        script:
                            "pid() { $COVE stats --json 2>/dev/null | sed 's/.*\"daemon_pid\":\\([0-9]*\\).*/\\1/'; }; old=$(pid); kill -9 $old; until new=$(pid) && [ $new != $old ]; do :; done",
                        isFound: true
                    ),
                    Row(
                        event: "another app's, renamed",
                        script: "mv d/doc.txt d/other.txt",
                        isFound: true,
                        isStale: true,
                        owner: "a"
                    ),
                    Row(
                        event: "another app's, revoked",
                        script:
                            "ids=$($COVE grants ls --json | grep -o '\"id\":[^,}]*' | cut -d: -f2); for id in $ids; do $COVE grants revoke $id; done",
                        isFound: false,
                        owner: "a",
                        refusal: "may not use it any more"
                    ),
                ]
                var table = "event | resolves | stale\n"
                for row in rows {
                    let folder = "\(row.owner)/Documents/t"
                    try account.shell(
                        "rm -rf \(folder); mkdir -p \(folder)/d; cd \(folder); echo text > d/doc.txt; $COVE sync --wait"
                    )
                    let token = String(
                        try account.shell(
                            "cd \(folder); $COVE bookmark create d/doc.txt --app com.b.app \(row.made)"
                        ).dropLast()
                    )
                    let before = try account.statistics().downloadsStarted
                    try account.shell("cd \(folder); \(row.script)")
                    let result = try account.start(
                        "cd \(folder); $COVE bookmark resolve '\(token)' --app com.b.app --json \(row.words)"
                    ).wait(deadline: 60)
                    let found = try? JSONDecoder().decode(
                        AccessInterface.ResolveReply.self,
                        from: Data(result.output.utf8)
                    )
                    table +=
                        "\(row.event) | \(found == nil ? "no" : "yes") | \(found.map { $0.isStale ? "yes" : "no" } ?? "-")\n"
                    #expect((found != nil) == row.isFound, "\(row.event): \(result.error)")
                    #expect(found?.isStale ?? false == row.isStale, "\(row.event)")
                    if !row.isFound { #expect(result.error.contains(row.refusal), "\(row.event): \(result.error)") }
                    if row.event != "the daemon ends" {
                        #expect(try account.statistics().downloadsStarted == before, "\(row.event)")
                    }
                }
                print(table)
            }
        }

        @Test func `81. what was revoked, another app's, or altered resolves no more`() async throws {
            try await given { account in
                let token = try make("a/Documents/report.txt", account)
                #expect(try resolve(token, account).path.hasSuffix("a/Documents/report.txt"))
                #expect(try resolve(token, account).scope != nil)
                let grant = try #require(try account.cove("grants ls", as: [AccessInterface.Grant].self).first)
                #expect(grant.source == "bookmark" && grant.reference == nil)
                let words = "it is no bookmark of this account that the app may use; make a new one"
                func refusal(_ token: String, app: String = "com.b.app") throws -> String {
                    let result = try account.start("$COVE bookmark resolve '\(token)' --app \(app)").wait(deadline: 30)
                    #expect(result.status == 1 && result.output.isEmpty)
                    return result.error
                }
                #expect(try refusal(token, app: "com.a.app").contains(words))
                for count in [1, 8, token.count / 2, token.count - 1] {
                    #expect(try refusal(String(token.prefix(count))).contains("no bookmark"))
                }
                #expect(try refusal(token + "AAAA").contains("no bookmark"))
                let other = try MountedAccount()
                try other.start()
                try other.cove("container create com.b.box --app com.b.app")
                #expect(
                    try other.start("$COVE bookmark resolve '\(token)' --app com.b.app").wait(deadline: 30).error
                        .contains(words)
                )
                try other.end()
                try account.cove("grants revoke \(grant.id)")
                #expect(try refusal(token).contains("may not use it any more"))
                // An app makes none of what it may not use, and none for others.
                let tried = try account.asApp(
                    "b",
                    "python3 - <<'END'\n\(Self.client)\nprint(call('CreateBookmark', path='a/Documents/report.txt'))\nprint(call('CreateBookmark', path='b/Documents/own.txt', app='com.a.app'))\nEND"
                )
                #expect(tried.components(separatedBy: "io.cove.Access.Failed").count == 3, "\(tried)")
            }
        }

        @Test func `81. who may only read is let write by another bookmark, and a base tells of nothing`() async throws
        {
            try await given { account in
                _ = try make("a/Documents/report.txt", account, "--read-only")
                func mayWrite() throws -> [Bool] {
                    try account.cove("grants ls", as: [AccessInterface.Grant].self).map(\.mayWrite)
                }
                #expect(try mayWrite() == [false])
                // The app itself asks for no more.
                _ = try account.asApp(
                    "b",
                    "python3 - <<'END'\n\(Self.client)\nprint(call('CreateBookmark', path='a/Documents/report.txt'))\nEND"
                )
                #expect(try mayWrite() == [false])
                _ = try make("a/Documents/report.txt", account)
                #expect(try mayWrite() == [true])
                _ = try make("a/Documents/report.txt", account, "--read-only")
                #expect(try mayWrite() == [true])
                try account.shell("echo secret > a/Documents/there.txt")
                let script = """
                    for name in ('there.txt', 'missing.txt'):
                        own = os.environ['COVE_CONTAINER'] + '/Documents/' + name
                        open(own, 'w').write('own')
                        token = call('CreateBookmark', path='b/Documents/' + name, base='b/Documents', minimal=True)['parameters']['bookmark']
                        os.unlink(own)
                        print(call('ResolveBookmark', bookmark=token, base='a/Documents'))
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(Self.client)\n\(script)\nEND")
                let answers = said.split(separator: "\n")
                #expect(answers.count == 2 && answers.first == answers.last && said.contains("not there"), "\(said)")
            }
        }

        static let client = """
            import json, os, socket
            s = socket.socket(socket.AF_UNIX)
            s.connect(os.getxattr(os.environ['COVE_SHARED'], 'user.cove.coordination-socket'))
            def call(method, **parameters):
                s.send(json.dumps({'method': 'io.cove.Access.' + method, 'parameters': parameters}).encode() + b'\\0')
                data = b''
                while not data.endswith(b'\\0'): data += s.recv(65536)
                return json.loads(data[:-1])
            def read(path):
                try: return open(os.environ['COVE_SHARED'] + '/' + path).read().strip()
                except OSError as error: return error.strerror
            """

        @Test func `72. and 78. a document is used between start and stop, and by no other path`() async throws {
            try await given { account in
                let token = try make("a/Documents/report.txt", account)
                let script = """
                    import os, sys
                    target = call('ResolveBookmark', bookmark='\(token)')['parameters']
                    scope = target['scope']
                    print(read(target['path']))
                    path = call('StartScope', scope=scope)['parameters']['path']
                    print(read(path))
                    held = open(os.environ['COVE_SHARED'] + '/' + path)
                    call('StartScope', scope=scope)
                    print(call('StopScope', scope=scope)['parameters']['isInUse'], read(path))
                    open(os.environ['COVE_SHARED'] + '/' + path, 'a').write('by scope')
                    print(call('StopScope', scope=scope)['parameters']['isInUse'], read(path))
                    print(call('StopScope', scope=scope)['parameters']['isInUse'], read(path))
                    print(held.read().strip())
                    print(call('StartScope', scope='0' * 32).get('error'))
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(Self.client)\n\(script)\nEND")
                let expected = [
                    "Permission denied", "original", "True original", "False Permission denied",
                    "False Permission denied",
                    "original", "by scope", "io.cove.Access.Failed",
                ]
                #expect(said == expected.joined(separator: "\n") + "\n", "\(said)")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\nby scope")
                // Nothing is left of it, and what a program leaves ends with it.
                #expect(try account.shell("ls -A b") == "Documents\n")
                let left = try account.asApp(
                    "b",
                    "python3 - <<'END'\n\(Self.client)\nscope = call('ResolveBookmark', bookmark='\(token)')['parameters']['scope']\npath = call('StartScope', scope=scope)['parameters']['path']\nprint(path)\nEND"
                )
                let path = String(left.dropLast())
                try waitUntil("the name is gone with its process", deadline: 30) {
                    try account.shell("cat '\(path)' 2>&1 || true").contains("denied")
                }
            }
        }

        @Test func `a scope is of use to nobody but the app that has it`() async throws {
            try await given { account in
                try account.addApp("c", document: "own.txt", "own\n")
                let token = try make("a/Documents/report.txt", account)
                let holder = """
                    import time
                    scope = call('ResolveBookmark', bookmark='\(token)')['parameters']['scope']
                    path = call('StartScope', scope=scope)['parameters']['path']
                    shared = os.environ['COVE_SHARED']
                    open(shared + '/scope', 'w').write(scope + ' ' + path)
                    end = time.monotonic() + 60
                    while not os.path.exists(shared + '/tried') and time.monotonic() < end: time.sleep(0.05)
                    print(read(path))
                    """
                let other = """
                    scope, path = open(os.environ['COVE_SHARED'] + '/scope').read().split(' ')
                    print(read(path))
                    for method in ('StartScope', 'StopScope'):
                        answer = call(method, scope=scope)
                        print(answer.get('error', answer))
                    print(read(path))
                    """
                try account.shell("cat > $tmp/holder.py <<'END'\n\(Self.client)\n\(holder)\nEND")
                let held = try account.start("$COVE run --app com.b.app -- python3 - < $tmp/holder.py")
                try waitUntil("it has the scope", deadline: 60) {
                    try account.shell("cat scope 2> /dev/null || true").contains(" ")
                }
                let said = try account.asApp("c", "python3 - <<'END'\n\(Self.client)\n\(other)\nEND")
                let denied = "Permission denied\n"
                #expect(
                    said == "\(denied)io.cove.Access.Failed\n{'parameters': {'isInUse': False}}\n\(denied)",
                    "\(said)"
                )
                try account.shell("touch tried")
                // Nobody has taken it from the app that has it.
                #expect(try held.wait(deadline: 60).output == "original\n")
            }
        }
    }
}
