import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What a program of an app might do to get more than it was given, and what other programs do at the wrong moment.
    struct HostileAppTests {
        private func given(
            readOnly: Bool = false,
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                if readOnly {
                    try account.cove("bookmark create a/Documents/report.txt --app com.b.app --read-only")
                } else {
                    try account.pick("a/Documents/report.txt", for: "b")
                }
                try body(account)
            }
        }

        @Test func `what may be read only is not cut, written or replaced`() async throws {
            try await given(readOnly: true) { account in
                let token = String(
                    try account.cove("bookmark create a/Documents/report.txt --app com.b.app --read-only").dropLast()
                )
                let script = """
                    import os
                    scope = call('ResolveBookmark', bookmark='\(token)')['parameters']['scope']
                    path = os.environ['COVE_SHARED'] + '/' + call('StartScope', scope=scope)['parameters']['path']
                    print(open(path).read().strip())
                    def attempt(what):
                        try: print('done', what())
                        except OSError as error: print(error.strerror)
                    attempt(lambda: os.open(path, os.O_RDONLY | os.O_TRUNC))
                    attempt(lambda: os.open(path, os.O_WRONLY))
                    attempt(lambda: os.truncate(path, 0))
                    attempt(lambda: os.chmod(path, 0o777))
                    attempt(lambda: os.setxattr(path, 'user.x', b'1'))
                    attempt(lambda: os.link(path, 'hard'))
                    attempt(lambda: os.rename('Documents/own.txt', path))
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(BookmarkTests.client)\n\(script)\nEND")
                #expect(said.hasPrefix("original\n") && !said.contains("done"), "\(said)")
                #expect(
                    try account.shell(
                        "cat a/Documents/report.txt b/Documents/own.txt; stat -c %a a/Documents/report.txt"
                    ) == "original\nown\n644\n"
                )
            }
        }

        @Test func `nothing of the caller's comes into a view`() async throws {
            try await given { account in
                let said = try account.start(
                    "echo inherited-secret > $tmp/in; export COVE_PASSWORD=password-secret AWS_SECRET_ACCESS_KEY=key-secret; "
                        + "exec 7< $tmp/in 8< $src; $COVE run --app com.b.app -- bash -c '"
                        + "cat /proc/*/environ /proc/*/cmdline | tr \"\\0\" \"\\n\"; for f in 7 8 9; do cat /proc/self/fd/$f /proc/1/fd/$f 2>&1; done; ls -l /proc/self/fd'"
                ).wait(deadline: 30)
                #expect(said.output.contains("COVE_APP=com.b.app") && !said.output.contains("secret"), "\(said.output)")
                for folder in ["$src", "$STATE", "$tmp", "$mnt/a", "/"] {
                    let refused = try account.start("$COVE run --app com.b.app --bind \(folder) -- true").wait(
                        deadline: 30
                    )
                    #expect(
                        refused.status == 1 && refused.error.contains("belongs to the account"),
                        "\(folder): \(refused.error)"
                    )
                }
                #expect(
                    try account.shell(
                        "mkdir $HOME/../m-bind-$$; echo seen > $HOME/../m-bind-$$/x; $COVE run --app com.b.app --bind $HOME/../m-bind-$$ -- cat $(realpath $HOME/../m-bind-$$)/x; rm -r $HOME/../m-bind-$$"
                    ) == "seen\n"
                )
            }
        }

        @Test func `a reference makes no other name for its document, and no link of it`() async throws {
            try await given { account in
                let said = try account.asApp(
                    "b",
                    "cd Documents; ln report.txt hard; ln -s own.txt link; mv -T link report.txt; mkfifo pipe; mv -T pipe report.txt; ls"
                )
                #expect(said.hasSuffix("link\nown.txt\npipe\nreport.txt\n"), "\(said)")
                #expect(
                    try account.shell("stat -c '%F %h' a/Documents/report.txt; cat a/Documents/report.txt")
                        == "regular file 2\noriginal\n"
                )
            }
        }

        @Test func `a reference that can't go somewhere takes nothing away there`() async throws {
            try await given { account in
                try account.shell("echo mine > root.txt; echo theirs > a/Documents/other.txt")
                for place in ["root.txt", "a/Documents/other.txt"] {
                    let said = try account.shell(
                        "python3 -c \"import os; os.rename('b/Documents/report.txt', '\(place)')\" 2>&1 || true"
                    )
                    #expect(said.contains("Invalid cross-device link"), "\(said)")
                }
                #expect(
                    try account.shell("cat root.txt a/Documents/other.txt b/Documents/report.txt")
                        == "mine\ntheirs\noriginal\n"
                )
                #expect(
                    try account.shell(
                        "mkdir b/Documents/d; mv b/Documents/report.txt b/Documents/d; python3 -c 'import os; os.rename(\"b/Documents/d\", \"moved\")' 2>/dev/null || true; ls b/Documents"
                    ).contains("d")
                )
            }
        }

        @Test func `a whiteout takes no reference's place, nor a container's`() async throws {
            try await given { account in
                let said = try account.shell(
                    """
                    echo new > b/Documents/new
                    python3 - <<'END'
                    import ctypes, errno
                    libc = ctypes.CDLL(None, use_errno=True)
                    for old, new in [("b/Documents/report.txt", "b/Documents/free"), ("b/Documents/report.txt", "b/Documents/own.txt"),
                                     ("b/Documents/new", "b/Documents/report.txt"), ("b", "c"), ("b/Documents/new", "b/Documents/other")]:
                        failed = libc.renameat2(-100, old.encode(), -100, new.encode(), 4)
                        print(old, new, errno.errorcode[ctypes.get_errno()] if failed else "done")
                    END
                    ls b/Documents; cat b/Documents/report.txt b/Documents/own.txt a/Documents/report.txt; stat -c %F b/Documents/new
                    """
                )
                #expect(
                    said == """
                        b/Documents/report.txt b/Documents/free EINVAL
                        b/Documents/report.txt b/Documents/own.txt EINVAL
                        b/Documents/new b/Documents/report.txt EINVAL
                        b c EBUSY
                        b/Documents/new b/Documents/other done
                        new
                        other
                        own.txt
                        report.txt
                        original
                        own
                        original
                        character special file

                        """
                )
            }
        }

        @Test func `a reference that was moved leaves its name to others`() async throws {
            try await given { account in
                try account.shell(
                    "mkdir b/Documents/Archive; mv b/Documents/report.txt b/Documents/Archive/; echo new > b/Documents/report.txt"
                )
                try account.shell(
                    "mv b/Documents/Archive/report.txt b/Documents/Archive/report.txt.old; touch b/Documents/Archive/report.txt"
                )
                #expect(
                    try account.shell(
                        "cat a/Documents/report.txt b/Documents/report.txt b/Documents/Archive/report.txt.old"
                    ) == "original\nnew\noriginal\n"
                )
            }
        }

        @Test func `what the owner saves after the other one has is seen by it, and what that adds arrives`()
            async throws
        {
            try await given { account in
                try account.shell(
                    "echo B > b/Documents/t; mv b/Documents/t b/Documents/report.txt; echo A > a/Documents/t; mv a/Documents/t a/Documents/report.txt"
                )
                #expect(
                    try account.shell(
                        "cat b/Documents/report.txt; echo more >> b/Documents/report.txt; cat a/Documents/report.txt"
                    ) == "A\nA\nmore\n"
                )
                #expect(try account.asApp("b", "cat Documents/report.txt") == "A\nmore\n")
            }
        }

        @Test func `a save through a reference waits for a claim on the document`() async throws {
            try await given { account in
                let claim = try account.start(
                    "$COVE coordinate --writing a/Documents/report.txt -- sh -c 'touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.05; done'"
                )
                try waitUntil("it is claimed", deadline: 20) {
                    FileManager.default.fileExists(atPath: account.scratch.appending("held"))
                }
                let said = try account.shell(
                    "echo new > b/Documents/t; mv b/Documents/t b/Documents/report.txt 2>&1 || true"
                )
                #expect(said.contains("busy"), "\(said)")
                #expect(try account.source.text("com.a.box/Documents/report.txt") == "original\n")
                try account.shell("touch $tmp/go")
                #expect(try claim.wait(deadline: 30).status == 0)
                try account.shell("mv b/Documents/t b/Documents/report.txt")
                #expect(try account.shell("cat a/Documents/report.txt") == "new\n")
            }
        }

        @Test func `a save by way of a backup waits for a claim on the document too`() async throws {
            try await given { account in
                let claim = try account.start(
                    "$COVE coordinate --writing a/Documents/report.txt -- sh -c 'touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.05; done; cat a/Documents/report.txt'"
                )
                try waitUntil("it is claimed", deadline: 20) {
                    FileManager.default.fileExists(atPath: account.scratch.appending("held"))
                }
                try account.shell("cd b/Documents; mv report.txt report.txt~; echo new > report.txt; touch $tmp/go")
                let seen = try claim.wait(deadline: 30)
                #expect(seen.status == 0 && seen.output == "original\n", "\(seen)")
                try waitUntil("it is saved then", deadline: 30) {
                    (try? account.shell("cat a/Documents/report.txt")) == "new\n"
                }
                #expect(try account.shell("cat b/Documents/report.txt b/Documents/report.txt~") == "new\noriginal\n")
            }
        }

        @Test func `an app has no file read for it, and what it may not use it does not find`() async throws {
            try await given { account in
                try account.shell("echo machine-secret > $tmp/machine; touch -r $tmp/machine b/Documents/own.txt")
                let script = """
                    import os
                    full = socket.socket(socket.AF_UNIX)
                    full.connect(os.getxattr(os.environ['COVE_SHARED'], 'user.cove.socket'))
                    def item(method, **parameters):
                        full.send(json.dumps({'method': 'io.cove.Item.' + method, 'parameters': parameters}).encode() + b'\\0')
                        data = b''
                        while not data.endswith(b'\\0'): data += full.recv(65536)
                        return json.loads(data[:-1])
                    for method in ('Adopt', 'Publish', 'Perform', 'Pin'):
                        print(method, item(method, path='b/Documents/own.txt', file='\(account.scratch.appending("machine"))', trustDates=True)['parameters']['errno'])
                    print(item('Info', path='b/Documents/own.txt')['parameters']['item']['name'])
                    for name in ('report.txt', 'none.txt'):
                        print(call('CreateBookmark', path='a/Documents/' + name)['parameters'].get('errno'))
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(BookmarkTests.client)\n\(script)\nEND")
                let refusals = ["Adopt 13", "Publish 13", "Perform 13", "Pin 13", "own.txt", "13", "13"]
                #expect(said == refusals.joined(separator: "\n") + "\n", "\(said)")
            }
        }

        @Test func `a bookmark is no way to what took its document's place, where that is no document`() async throws {
            try await given { account in
                let token = String(
                    try account.cove("bookmark create a/Documents/report.txt --app com.b.app").dropLast()
                )
                try account.shell(
                    "$COVE sync --wait; rm a/Documents/report.txt; $COVE sync --wait; $COVE trash empty . > /dev/null; mkdir a/Documents/report.txt; echo hidden-secret > a/Documents/report.txt/x"
                )
                let found = try account.start("$COVE bookmark resolve '\(token)' --app com.b.app").wait(deadline: 30)
                #expect(found.status == 1 && found.output.isEmpty, "\(found)")
            }
        }

        @Test func `an app takes no folder that is there for a container, nor another one's name`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create com.a.box --app com.a.app --name A.Notes --public")
                try account.shell(
                    "echo the-secret > A.Notes/Documents/s.txt; mkdir tax.2024; echo tax-secret > tax.2024/t; mkdir -p $src/far.folder; echo far-secret > $src/far.folder/f"
                )
                try account.addApp("b", document: "own.txt", "own")
                let tried = try account.asApp(
                    "b",
                    "python3 - <<'END'\n\(BookmarkTests.client)\nfor name in ('A.Notes', 'tax.2024', 'far.folder', 'com.a.box'):\n    print(name, call('CreateContainer', identifier=name, app='com.b.app', name='zzz').get('error'))\nEND"
                )
                #expect(tried.components(separatedBy: "io.cove.Access.Failed").count == 5, "\(tried)")
                for _ in 0..<3 {
                    try account.killDaemon()
                    #expect(try !account.asApp("b", "cat $COVE_SHARED/A.Notes/Documents/s.txt").contains("secret"))
                }
                // A document that can't be read, or says something else, takes nothing from anybody.
                try account.settle()
                for text in [
                    "", "{", "[]", "{\"identifier\": \"com.a.box\", \"app\": 7}",
                    "{\"identifier\": \"com.b.box\", \"app\": \"com.b.app\", \"name\": \"x\", \"isPublic\": true}",
                ] {
                    try account.source.save("_cove-drive/containers/com.a.box.json", Array(text.utf8))
                    try account.settle()
                    #expect(
                        try !account.asApp(
                            "b",
                            "cat $COVE_SHARED/A.Notes/Documents/s.txt; python3 - <<'END'\n\(BookmarkTests.client)\nprint(call('CreateContainer', identifier='com.a.box', app='com.b.app'))\nEND"
                        ).contains("the-secret"),
                        "\(text)"
                    )
                }
            }
        }

        @Test func `a name that a container had is another folder's like any`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create com.a.box --app com.a.app --name Notes --public")
                try account.shell(
                    "echo own > Notes/Documents/s.txt; $COVE sync --wait; mv Notes Memos; $COVE sync --wait"
                )
                try account.source.write("Notes/z.txt", "theirs")
                try waitUntil("the other folder is seen", deadline: 30) {
                    (try? account.shell("cat Notes/z.txt")) == "theirs"
                }
                #expect(try account.shell("ls Notes Memos/Documents") == "Memos/Documents:\ns.txt\n\nNotes:\nz.txt\n")
                try account.shell(
                    "rm -rf Notes; $COVE sync --wait --accept-local-deletions; mkdir Notes; echo new > Notes/n; $COVE sync --wait"
                )
                #expect(
                    try account.source.text("com.a.box/Documents/s.txt") == "own\n"
                        && account.source.text("Notes/n") == "new\n"
                )
                try account.crash()
                try account.start()
                #expect(try account.shell("cat Memos/Documents/s.txt Notes/n") == "own\nnew\n")
            }
        }

        @Test func `what was revoked stays so, whatever another device has done meanwhile`() async throws {
            try await given { account in
                try account.settle()
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls -R . > /dev/null")
                try waitUntil("the other device has it", deadline: 30) {
                    try second.cove("grants ls").contains("com.b.app")
                }
                try second.shell("$COVE pause; mv a/Documents/report.txt a/Documents/renamed.txt")
                try waitUntil("the other device's record says so, which nobody has yet", deadline: 30) {
                    try second.shell("cat _cove-drive/references/*").contains("renamed.txt")
                }
                try account.shell("$COVE refs rm b/Documents/report.txt")
                try waitUntil("the record is gone at the source", deadline: 30) {
                    try account.settle()
                    return try account.shell("ls $src/_cove-drive/references").isEmpty
                }
                try second.shell("$COVE resume; $COVE sync --wait")
                try waitUntil("it is revoked on both", deadline: 60) {
                    let here = try account.cove("grants ls") + account.cove("refs ls")
                    let there = try second.cove("grants ls") + second.cove("refs ls")
                    let left = try account.shell("ls _cove-drive/references; ls $src/_cove-drive/references")
                    return here.isEmpty && there.isEmpty && left.isEmpty
                }
                try second.end()
            }
        }

        @Test(arguments: ["report.txt", "fresh.txt"])
        func `a temporary name that is used again takes nothing along of what an app was given`(
            _ name: String
        ) async throws {
            try await given { account in
                // Saved under a name that the source has seen by the time of the rename.
                try account.shell("cd a/Documents; echo first > .t; $COVE sync --wait; mv .t \(name)")
                let reference = try account.pick("a/Documents/\(name)", for: "b")
                try account.shell("cd a/Documents; echo other > other.txt; $COVE sync --wait")
                try account.shell("cd a/Documents; echo hidden-text > .t; mv .t other.txt; $COVE sync --wait")
                #expect(try account.shell("cat a/Documents/other.txt '\(reference)'") == "hidden-text\nfirst\n")
                let seen = try account.asApp("b", "cat \"$COVE_SHARED/\(reference)\" Documents/*")
                #expect(seen.contains("first") && !seen.contains("hidden-text"), "\(seen)")
            }
        }

        @Test func `references that others have written name only what is offered`() async throws {
            try await given { account in
                try account.cove("container create com.p.box --app com.p.app --name p")
                try account.shell("echo private-secret > p/Documents/s.txt; $COVE sync --wait")
                let targets = [
                    "com.p.box/Documents/s.txt", "_cove-drive/apps/com.a.app.json", ".cove/versions",
                    "com.a.box/Documents",
                    "", "../x", "nowhere",
                ]
                for (number, target) in targets.enumerated() {
                    for name in ["n\(number)", ".cove-incoming-\(number)", "a/b", ""] {
                        let record =
                            "{\"container\": \"com.b.box\", \"folder\": {\"path\": \"Documents\"}, \"name\": {\"path\": \"\(name)\"}, \"target\": {\"path\": \"\(target)\"}, \"made\": 1e300}"
                        try account.source.write("_cove-drive/references/\(DocumentID.random()).json", record)
                    }
                }
                try account.source.write(
                    "_cove-drive/references/\(DocumentID.random()).json",
                    "{\"container\": \"com.b.box\", \"folder\": {\"path\": \"Documents\"}, \"name\": {\"path\": \"good\"}, \"target\": {\"path\": \"com.a.box/Documents/report.txt\"}, \"isReadOnly\": true}"
                )
                try waitUntil("the one that makes sense is there", deadline: 40) {
                    try account.shell("$COVE sync --wait; ls b/Documents").contains("good")
                }
                let seen = try account.asApp("b", "cat Documents/* Documents/.[a-z]*; ls -la Documents")
                #expect(!seen.contains("private-secret") && seen.contains("original"), "\(seen)")
                #expect(try account.shell("ls -A b/Documents | grep -c cove || true") == "0\n")
            }
        }
    }
}
