import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Whose a program is that calls on a socket, by the file that it runs; and what programs try to be another one's.
    struct IdentityTests {
        /// What the user, and each of the two apps, hears of the containers.
        static let user = "com.a.box com.b.box\n"
        static let a = "com.a.box\n"
        static let b = "com.b.box\n"

        /// Asks on the account's socket which containers there are: whose the program is shows by that.
        static let asking = """
            import json, os, socket, sys
            def connect(name='user.cove.socket'):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(30)
                s.connect(os.getxattr(os.environ['mnt'], name))
                return s
            def call(s, method, **parameters):
                s.send(json.dumps({'method': method, 'parameters': parameters}).encode() + b'\\0')
                data = b''
                while not data.endswith(b'\\0'): data += s.recv(65536)
                return json.loads(data[:-1])['parameters']
            def who(s):
                reply = call(s, 'io.cove.Access.Containers')
                return reply.get('message') or ' '.join(c['identifier'] for c in reply['containers'])
            if __name__ == '__main__': print(who(connect()))
            """

        /// An account with two apps; `$tmp/notes` is a program that runs scripts, and `$PYTHON` the system's.
        static func account(
            variables: [String: String] = [:],
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms", variables: variables)
                try account.start()
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.shell(
                    "cat > $tmp/ask.py <<'END'\n\(asking)\nEND\nln -s $(realpath /usr/bin/python3) $tmp/python; cp -L $tmp/python $tmp/notes"
                )
                try body(account)
                try account.end()
            }
        }

        /// A script for `$tmp/notes`, which has what `ask.py` defines.
        private func notes(_ script: String, _ program: String = "$tmp/notes") -> String {
            "export PYTHONPATH=$tmp; \(program) - <<'END'\nfrom ask import *\n\(script)\nEND"
        }

        @Test func `a program that runs a registered file is the app, whatever it calls itself`() async throws {
            try await Self.account { account in
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.user)
                try account.cove("app register com.a.app --executable $tmp/notes")
                try account.shell("ln -s $tmp/notes $tmp/link; ln $tmp/notes $tmp/hard; cp $tmp/notes $tmp/copy")
                for way in [
                    "$tmp/notes $tmp/ask.py", "cd $tmp; ./notes ask.py", "$tmp/link $tmp/ask.py",
                    "$tmp/hard $tmp/ask.py",
                    "exec -a $COVE $tmp/notes $tmp/ask.py", "exec -a $tmp/copy $tmp/notes $tmp/ask.py",
                    // Its threads and its environment say nothing.
                    "COVE_APP=com.b.app $tmp/notes $tmp/ask.py",
                    notes("import threading; t = threading.Thread(target=lambda: print(who(connect()))); t.start()"),
                    notes("import ctypes; ctypes.CDLL(None).prctl(15, b'cove'); print(who(connect()))"),
                ] { #expect(try account.shell(way) == Self.a, "\(way)") }
                // Another file is another program: what it calls itself is nothing.
                for way in [
                    "$tmp/copy $tmp/ask.py", "exec -a $tmp/notes $tmp/python $tmp/ask.py",
                    notes("import ctypes; ctypes.CDLL(None).prctl(15, b'notes'); print(who(connect()))", "$tmp/python"),
                ] { #expect(try account.shell(way) == Self.user, "\(way)") }
                // The file may be named by a link, and the daemon may die.
                try account.cove("app register com.a.app --executable $tmp/link")
                try account.killDaemon()
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.a)
                try account.cove("app remove com.a.app")
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.user)
            }
        }

        @Test func `an app that is known by its file needs no token, and may do no more than in a view`() async throws {
            try await Self.account { account in
                try account.cove("app register com.a.app --executable $tmp/notes")
                let token = String(try account.cove("bookmark create b/Documents/own.txt --app com.a.app").dropLast())
                let other = String(
                    try account.cove("bookmark create a/Documents/report.txt --app com.b.app").dropLast()
                )
                let script = """
                    s, c = connect(), connect('user.cove.coordination-socket')
                    A, I = 'io.cove.Access.', 'io.cove.Item.'
                    print(call(s, A + 'ContainerPath')['path'], call(c, A + 'ContainerPath')['path'])
                    print(call(s, A + 'ResolveBookmark', bookmark='\(token)')['path'], [g['app'] for g in call(c, A + 'Grants')['grants']])
                    print(call(s, I + 'Info', path='a/Documents/report.txt')['item']['name'])
                    for method, parameters in [
                        ('Access.ContainerPath', {'app': 'com.b.app'}), ('Access.ContainerPath', {'identifier': 'com.b.box'}),
                        ('Access.Grants', {'app': 'com.b.app'}),
                        ('Access.ResolveBookmark', {'app': 'com.b.app', 'bookmark': '\(other)'}),
                        ('Access.ResolveBookmark', {'bookmark': '\(other)'}),
                        ('Access.Give', {'app': 'com.a.app', 'path': 'b/Documents/own.txt'}),
                        ('Access.EnterView', {'app': 'com.b.app', 'process': os.getpid()}),
                        ('Access.RegisterApp', {'manifest': json.dumps({'CFBundleIdentifier': 'com.b.app', 'CoveExecutables': ['\(account.scratch.appending("copy"))']})}),
                        ('Access.RegisterApp', {'manifest': json.dumps({'CoveSystemdUnits': ['x.service']})}),
                        ('Item.Info', {'path': 'b/Documents/own.txt'}), ('Item.Publish', {'path': 'a/Documents/report.txt'}),
                        ('Account.Status', {}),
                    ]: print(method, call(s, 'io.cove.' + method, **parameters).get('errno', 'none'))
                    """
                let refusals = [
                    "Access.ContainerPath 13", "Access.ContainerPath none", "Access.Grants 13",
                    "Access.ResolveBookmark 13", "Access.ResolveBookmark 13", "Access.Give 13", "Access.EnterView 13",
                    "Access.RegisterApp 22", "Access.RegisterApp 13", "Item.Info 13", "Item.Publish 13",
                    "Account.Status 13",
                ]
                let told = "a a\nb/Documents/own.txt ['com.a.app']\nreport.txt\n"
                #expect(
                    try account.shell(notes(script)) == told + refusals.map { $0 + "\n" }.joined(),
                    "what the app itself may not say is who is an app"
                )
                // The library's programs say nothing of who they are.
                let driver = try Command.built("CoveKitDriver")
                let steps = "container|bookmark \(account.mount)/a/Documents/report.txt"
                func said() throws -> String {
                    let words = steps.split(separator: "|").map { "'\($0)'" }.joined(separator: " ")
                    return try account.shell("env -u COVE_APP \(driver) \(words)")
                }
                #expect(try !said().contains("\(account.mount)/a\n"))
                try account.cove("app register com.a.app --executable \(driver)")
                #expect(try said() == "container \(account.mount)/a\ndocument original\n\n")
            }
        }

        @Test func `a file that was changed, replaced or removed is the app's no longer, and not the user's`()
            async throws
        {
            try await Self.account { account in
                try account.cove("app register com.a.app --executable $tmp/notes")
                let file = account.scratch.appending("notes")
                let changed =
                    "\(file) has changed since it was registered; run `cove app register com.a.app --executable \(file)` again\n"
                let replaced = "\(file) was replaced or removed since the program began; start it again\n"
                // In place: the same file with other bytes.
                try account.shell("printf x >> $tmp/notes")
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == changed)
                #expect(
                    try account.cove("app ls").contains("\(file) (it has changed since it was registered)")
                )
                try account.cove("app register com.a.app --executable $tmp/notes")
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.a)
                // While it runs, by what an upgrade does.
                let program = try account.start(
                    notes(
                        "import sys; print('ready', flush=True); open('\(account.scratch.appending("go"))').read(); print(who(connect()))"
                    )
                    .replacingOccurrences(of: "export", with: "mkfifo $tmp/go; export")
                )
                try waitUntil("the program runs", deadline: 30) { program.output.contains("ready") }
                try account.shell("cp $tmp/python $tmp/new; mv $tmp/new $tmp/notes; echo > $tmp/go")
                #expect(try program.wait(deadline: 30).output == "ready\n" + replaced)
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == changed)
                try account.cove("app register com.a.app --executable $tmp/notes")
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.a)
                // Gone; another file of the same bytes elsewhere is not it.
                let last = try account.start(
                    notes(
                        "print('ready', flush=True); open('\(account.scratch.appending("go"))').read(); print(who(connect()))"
                    )
                )
                try waitUntil("the program runs", deadline: 30) { last.output.contains("ready") }
                try account.shell("cp $tmp/notes $tmp/copy; rm $tmp/notes; echo > $tmp/go")
                #expect(try last.wait(deadline: 30).output == "ready\n" + replaced)
                #expect(try account.shell("$tmp/copy $tmp/ask.py") == Self.user)
                let apps = try account.cove("app ls", as: [AccessInterface.App].self)
                #expect(
                    apps.first?.executables == [AccessInterface.Executable(path: file, problem: "it is gone")]
                )
                #expect(try account.start("$COVE doctor").wait(deadline: 60).output.contains("\(file): it is gone"))
            }
        }

        @Test func `what can't tell whose a program is, is not registered`() async throws {
            try await Self.account { account in
                try account.shell(
                    "printf '#!/bin/sh\\n' > $tmp/script; chmod +x $tmp/script; echo text > $tmp/text; cp $tmp/text $tmp/data; chmod +x $tmp/data; cp $tmp/notes a/Documents/program; chmod +x a/Documents/program; ln -s $(realpath /bin/bash) $tmp/hidden"
                )
                let runs = "which runs programs of all kinds; run the app by `cove run --app`"
                let python = try account.shell("realpath /usr/bin/python3").dropLast()
                for (file, words) in [
                    ("/usr/bin/python3", "it is \(python), \(runs)"), ("$tmp/hidden", "it is /usr/bin/bash, \(runs)"),
                    ("/usr/bin/env", "it is /usr/bin/env, \(runs)"),
                    (
                        "$tmp/script",
                        "it is a script, and its interpreter runs other ones too; run it by `cove run --app`"
                    ),
                    ("$tmp/data", "it is no program of the machine's own format; run it by `cove run --app`"),
                    ("$tmp/text", "it is no executable file; name the file that runs"),
                    ("$tmp", "it is no executable file; name the file that runs"),
                    ("$mnt/a/Documents/program", "it is on a FUSE mount; install it on a disk"),
                    ("$tmp/none", "No such file or directory; name an executable that can be read"),
                ] {
                    try account.expectRefusal(
                        "$COVE app register com.a.app --executable \(file)",
                        "com.a.app: \(file): \(words)"
                    )
                }
                let own = try account.start("$COVE app register com.a.app --executable $COVE").wait(deadline: 30)
                #expect(own.status == 1 && own.error.contains("it is Cove itself"), "\(own.error)")
                // One file is one app's.
                try account.cove("app register com.a.app --executable $tmp/notes --unit notes.service")
                let taken = "com.b.app: what it names is known as a program of com.a.app; remove it there first"
                try account.expectRefusal("$COVE app register com.b.app --executable $tmp/notes", taken)
                try account.expectRefusal("$COVE app register com.b.app --unit notes.service", taken)
                for unit in ["notes", "notes.slice", ".service", "a/b.service", "a b.scope"] {
                    let refused = try account.start("$COVE app register com.a.app --unit '\(unit)'").wait(deadline: 30)
                    #expect(refused.status == 1 && refused.error.contains("CoveSystemdUnits has a name"), "\(unit)")
                }
                // A manifest says the whole, and an empty list nothing; what is said besides goes on to hold.
                func app() throws -> AccessInterface.App? {
                    try account.cove("app ls", as: [AccessInterface.App].self).first
                }
                #expect(try app()?.units == ["notes.service"] && app()?.containers == ["com.a.box"])
                try account.shell(
                    "echo '{\"CFBundleVersion\": 0, \"CoveExecutables\": []}' > $tmp/m.json; $COVE app register com.a.app --manifest $tmp/m.json"
                )
                #expect(
                    try app()?.executables == [] && app()?.units == ["notes.service"]
                        && app()?.containers == ["com.a.box"]
                )
                #expect(try account.shell("$tmp/notes $tmp/ask.py") == Self.user)
            }
        }

        @Test func `who connects is who speaks, whatever the process becomes then`() async throws {
            try await Self.account { account in
                try account.cove("app register com.a.app --executable $tmp/notes")
                // A connection goes on to be what it was when it was made.
                let become = """
                    s = connect()
                    print(who(s), flush=True)
                    s.set_inheritable(True)
                    code = 'import os, sys, socket; sys.path.insert(0, os.environ["tmp"]); from ask import *; s = socket.socket(fileno=%d); s.setblocking(True); print(who(s))' % s.fileno()
                    os.execv(os.environ['tmp'] + '/OTHER', ['other', '-c', code])
                    """
                let fromApp = become.replacingOccurrences(of: "OTHER", with: "python")
                #expect(try account.shell(notes(fromApp)) == Self.a + Self.a)
                let fromUser = become.replacingOccurrences(of: "OTHER", with: "notes")
                #expect(try account.shell(notes(fromUser, "$tmp/python")) == Self.user + Self.user)
                // What an app starts is another program.
                #expect(
                    try account.shell(
                        notes(
                            "import subprocess; subprocess.run([os.environ['tmp'] + '/python', os.environ['tmp'] + '/ask.py'])"
                        )
                    )
                        == Self.user
                )
                // A view decides alone, whatever runs in it.
                let seen = try account.shell(
                    """
                    bin=$(mktemp -d); cp $tmp/notes $bin/notes; $COVE app register com.a.app --executable $bin/notes
                    export COVE_RUN="$COVE run --app com.b.app --bind $bin --"
                    cp $tmp/ask.py b/ask.py
                    $bin/notes $tmp/ask.py; $COVE_RUN sh -c "mnt=\\$COVE_SHARED $bin/notes \\$COVE_CONTAINER/ask.py"; rm -r $bin
                    """
                )
                #expect(seen == Self.a + Self.b)
            }
        }
    }
}
