import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What a program of an app can get at of another app; the numbers are those of the acceptance checklist.
    struct ViewTests {
        /// What a program may try, each a script that says the secret where it succeeds; `$A` is the other container's folder.
        static let ways: [(name: String, script: String)] = [
            ("its path", "cat $A/Documents/s.txt"),
            ("a listing", "ls -R $A; cat $A/*/*"),
            ("the folder above", "cat ../a/Documents/s.txt; cd Documents && cat ../../a/Documents/s.txt"),
            (
                "a symbolic link in the own container",
                "ln -s $A/Documents/s.txt l; cat l; ln -s ../a m; cat m/Documents/s.txt"
            ),
            ("a symbolic link in the root", "ln -s a $COVE_SHARED/link; cat $COVE_SHARED/link/Documents/s.txt"),
            ("the root of a process", "for p in self 1 2; do cat /proc/$p/root$A/Documents/s.txt; done"),
            (
                "the working folders and files of processes",
                "for f in /proc/[0-9]*/cwd /proc/[0-9]*/fd/*; do timeout 1 cat $f/../a/Documents/s.txt $f; done </dev/null"
            ),
            ("a hard link", "ln $A/Documents/s.txt h; cat h; ln -L $A/Documents/s.txt Documents/h; cat Documents/h"),
            ("a rename of the document", "mv $A/Documents/s.txt mine; cat mine"),
            (
                "a rename of the container",
                "mv $A mine; cat mine/Documents/s.txt; mv $A $COVE_SHARED/x; cat $COVE_SHARED/x/Documents/s.txt"
            ),
            ("the cover taken away", "umount $A; umount -l $A; cat $A/Documents/s.txt"),
            (
                "the cover taken away in a namespace of its own",
                "unshare -Urm sh -c \"umount -l $A; mount --bind $COVE_SHARED /mnt; cat $A/Documents/s.txt /mnt/a/Documents/s.txt\""
            ),
            (
                "a PID namespace of its own",
                "unshare -Urpfm sh -c \"mount --bind $COVE_SHARED /mnt; cat /mnt/a/Documents/s.txt $COVE_SHARED/late/Documents/s.txt\""
            ),
            (
                "a sandbox in the sandbox",
                "bwrap --unshare-pid --bind / / --bind $COVE_SHARED /mnt cat /mnt/a/Documents/s.txt"
            ),
            ("the tree of versions", "ls -R $COVE_SHARED/.cove; cat $COVE_SHARED/.cove/versions/*/*"),
            ("the account's documents", "cat $COVE_SHARED/_cove-drive/*/*; ls $COVE_SHARED/_cove-drive"),
            ("the identifier as a name", "cat $COVE_SHARED/com.a.box/Documents/s.txt"),
            ("a container made later", "cat $COVE_SHARED/late/Documents/s.txt; ls -R $COVE_SHARED/late"),
            (
                "handles",
                "python3 -c \"import ctypes,os; l=ctypes.CDLL(None); h=(ctypes.c_char*136)(*([128,0,0,0]+[0]*132)); m=ctypes.c_int(); print(l.name_to_handle_at(-100,b'$COVE_SHARED/late/Documents/s.txt',h,ctypes.byref(m),0)); d=os.open('$COVE_SHARED',0); f=l.open_by_handle_at(d,h,0); print(os.read(f,99))\""
            ),
            (
                "attributes",
                "getfattr -d -m - $COVE_SHARED/late/Documents/s.txt $COVE_SHARED/late; truncate -s 0 $COVE_SHARED/late/Documents/s.txt"
            ),
            ("the state and the source", "cat $STATE/content/* $SRC/*/*/*; ls $STATE $SRC"),
            (
                "the sockets",
                "for m in io.cove.Item.Info io.cove.Item.Versions io.cove.Item.List io.cove.Item.Download io.cove.Coordination.List io.cove.Coordination.Claim io.cove.Account.Status io.cove.Query.Run io.cove.Access.Containers; do python3 $CALL $m a/Documents/s.txt; python3 $CALL $m late/Documents/s.txt; python3 $CALL $m ''; done"
            ),
            (
                "what only the user may do on the socket",
                "python3 $CALL io.cove.Access.Give a/Documents/s.txt; cat Documents/s.txt; python3 $CALL io.cove.Access.EnterView x; python3 $CALL io.cove.Access.SetPublic x"
            ),
            (
                "write through a name of the root",
                "cp /dev/null $COVE_SHARED/late/Documents/s.txt; rm -rf $COVE_SHARED/late/Documents"
            ),
        ]

        private static let caller = """
            import json, os, socket, sys
            name, path = sys.argv[1], sys.argv[2]
            for file in (os.getxattr(os.environ['COVE_SHARED'], 'user.cove.socket'),
                         os.getxattr(os.environ['COVE_SHARED'], 'user.cove.coordination-socket')):
                for more in (False, True):
                    try:
                        s = socket.socket(socket.AF_UNIX)
                        s.settimeout(5)
                        s.connect(file.decode())
                        p = {'path': path, 'app': 'com.b.app', 'predicate': 'FSName LIKE "*"', 'process': 1, 'identifier': 'com.a.box',
                             'isPublic': False, 'items': [{'path': path, 'use': 'reading'}], 'paths': [path]}
                        s.send(json.dumps({'method': name, 'parameters': p, 'more': more}).encode() + b'\\0')
                        print(name, s.recv(65536).decode(errors='replace'))
                    except OSError as error:
                        print(name, error)
            """

        @Test func `a file without a name is an app's own, and gets its name where the app may make one`()
            async throws
        {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "s.txt", "the-secret")
                try account.addApp("b", document: "own.txt", "own")
                let script = """
                    python3 - <<"END"
                    import ctypes, errno, os
                    libc = ctypes.CDLL(None, use_errno=True)
                    def link(file, name):
                        failed = libc.linkat(-100, b"/proc/self/fd/%d" % file, -100, name.encode(), 0x400)
                        print(name, errno.errorcode[ctypes.get_errno()] if failed else open(name).read())
                    for place in ("Documents", os.environ["COVE_SHARED"]):
                        file = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o644); os.write(file, b"text")
                        os.fchmod(file, 0o600); os.utime(file, (1, 1)); os.setxattr(file, "user.a", b"1")
                        print(oct(os.fstat(file).st_mode), os.fstat(file).st_mtime, os.getxattr(file, "user.a"))
                        link(file, "Documents/of-" + os.path.basename(place)); os.close(file)
                    END
                    """
                let said = try account.asApp("b", script)
                let shared = account.mount.split(separator: "/").last ?? ""
                let fact = "0o100600 1.0 b'1'\n"
                #expect(said == "\(fact)Documents/of-Documents text\n\(fact)Documents/of-\(shared) text\n", "\(said)")
                try account.settle()
                let sent = "ls $src/com.b.box/Documents | grep -c of-"
                #expect(try account.shell("cat b/Documents/of-*; \(sent)") == "texttext2\n")
            }
        }

        @Test func `74. a program of one app reads no byte of another's container, whichever way it tries`()
            async throws
        {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "s.txt", "the-secret")
                try account.shell(
                    "echo first-secret > a/Documents/s.txt; $COVE sync --wait; echo the-secret > a/Documents/s.txt; $COVE sync --wait"
                )
                try account.addApp("b", document: "own.txt", "own")
                try account.settle()
                // What the program uses is here, where it can be had in the sandbox.
                try account.shell("cat > call.py <<'END'\n\(ViewTests.caller)\nEND")
                #expect(Self.ways.count >= 20)
                // A sandbox that is older than one of the containers.
                let waiting = try account.start(
                    "$COVE run --app com.b.app -- bash -c 'echo ready; read line; echo \"$line\"; bash -c \"$line\"' 2>&1 < <(while [ ! -e $tmp/go ]; do sleep 0.05; done; cat $tmp/go)"
                )
                try waitUntil("the sandbox is there", deadline: 30) { waiting.output.contains("ready") }
                try account.addApp("late", document: "s.txt", "late-secret")
                try account.shell("cat late/Documents/s.txt; ls -lR late >/dev/null")
                try Data(
                    "cat $COVE_SHARED/late/Documents/s.txt; ls -l $COVE_SHARED/late/Documents; head -c 9 < $COVE_SHARED/late/Documents/s.txt; ln $COVE_SHARED/late/Documents/s.txt x; cat x\n"
                        .utf8
                ).write(
                    to: URL(fileURLWithPath: account.scratch.appending("go.new"))
                )
                try account.shell("mv $tmp/go.new $tmp/go")
                let late = try waiting.wait(deadline: 60)
                #expect(!late.output.contains("late-secret") && late.output.contains("denied"), "\(late.output)")
                try expectNothing(account)
                // What a person gives it reads, until that is revoked: then it has no way to it again.
                #expect(try account.pick("a/Documents/s.txt", for: "b") == "b/Documents/s.txt")
                #expect(try account.asApp("b", "cat Documents/s.txt") == "the-secret\n")
                let grant = try #require(try account.cove("grants ls", as: [AccessInterface.Grant].self).first)
                try account.cove("grants revoke \(grant.id)")
                try expectNothing(account)
                // What it may do works.
                let may = try account.asApp(
                    "b",
                    "cat Documents/own.txt; echo more >> Documents/own.txt; cat Documents/own.txt; ls $COVE_SHARED"
                )
                #expect(may.hasPrefix("ownownmore\n"), "\(may)")
            }
        }

        private func expectNothing(_ account: MountedAccount) throws {
            for way in Self.ways {
                let tried = try account.asApp(
                    "b",
                    "A=$COVE_SHARED/a STATE=\(account.scratch.appending("state")) SRC=\(account.source.path) "
                        + "CALL=$COVE_SHARED/call.py; export A STATE SRC CALL\n\(way.script)"
                )
                for secret in ["the-secret", "first-secret", "late-secret", "com.late.box"] {
                    #expect(!tried.contains(secret), "\(way.name): \(tried)")
                }
                // Nothing was changed or taken either.
                let left = try account.shell("cat a/Documents/s.txt; cat late/Documents/s.txt")
                #expect(left == "the-secret\nlate-secret", "\(way.name)")
            }
        }

        @Test func `a copy that was picked for an app is there for its programs, and for no other app's`() async throws
        {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "s.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own")
                let pick = "$COVE pick --app com.b.app --mode import --choose a/Documents/s.txt"
                let copy = try account.shell(pick).dropLast()
                #expect(try account.asApp("b", "cat \(copy); echo more >> \(copy)") == "original\n")
                #expect(try account.shell("cat \(copy) a/Documents/s.txt") == "original\nmore\noriginal\n")
                #expect(try account.asApp("a", "cat \(copy)").contains("No such file"))
                // Where there is no place for copies, programs run all the same.
                let run = "XDG_CACHE_HOME=/proc/none $COVE run --app com.b.app -- cat Documents/own.txt"
                #expect(try account.shell(run) == "own")
            }
        }

        @Test func `what else is mounted in the account's mount is nothing for an app`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("b", document: "own.txt", "own\n")
                try account.shell(
                    """
                    mkdir -p disk b/Documents/inner $tmp/other/deep; : > f; echo secret > $tmp/file
                    echo secret > $tmp/other/s; echo secret > $tmp/other/deep/s
                    for place in disk b/Documents/inner disk/deep; do mount --bind $tmp/other $place; done; mount --bind $tmp/file f
                    """
                )
                let said = try account.asApp(
                    "b",
                    "cd $COVE_SHARED; cat disk/s disk/deep/s f b/Documents/inner/s; ls disk; echo x > f; cat b/Documents/own.txt; ls b/Documents"
                )
                let left = try account.shell(
                    "umount -l f b/Documents/inner disk/deep disk; cat $tmp/file; cat f; ls -A disk b/Documents/inner"
                )
                #expect(!said.contains("secret") && said.hasSuffix("own\ninner\nown.txt\n"), "\(said)")
                #expect(left == "secret\nb/Documents/inner:\n\ndisk:\n", "\(left)")
            }
        }

        @Test func `root has an app's container at a place of its own`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("b", document: "own.txt", "own\n")
                let place = account.scratch.appending("place")
                try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
                try account.cove("mount --app com.b.app \(place)")
                #expect(try account.shell("ls \(place); cat \(place)/Documents/own.txt") == "Documents\nown\n")
                #expect(
                    try account.shell("echo more >> \(place)/Documents/own.txt; cat b/Documents/own.txt")
                        == "own\nmore\n"
                )
                try account.shell("umount \(place)")
                try account.expectRefusal(
                    "$COVE mount --app com.none.app \(place)",
                    "com.none.app: it has no container; make one with `cove container create ID --app com.none.app`"
                )
            }
        }

        @Test func `an app's programs stay so when the daemon dies, and their namespaces inside too`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "s.txt", "the-secret")
                try account.addApp("b", document: "own.txt", "own")
                try account.shell("ls -lR . > /dev/null; mkfifo $tmp/go")
                let program = try account.start(
                    "$COVE run --app com.b.app -- bash -c 'echo ready; read x; cat $COVE_SHARED/a/Documents/s.txt $COVE_SHARED/late/Documents/s.txt; cat Documents/own.txt' 2>&1 < $tmp/go"
                )
                let hold = try account.start(
                    "exec 3> $tmp/go; while [ ! -e $tmp/done ]; do sleep 0.05; done; echo go >&3"
                )
                try waitUntil("the sandbox is there", deadline: 30) { program.output.contains("ready") }
                try account.killDaemon()
                try account.addApp("late", document: "s.txt", "late-secret")
                try account.shell("touch $tmp/done")
                _ = try hold.wait(deadline: 30)
                let result = try program.wait(deadline: 30)
                #expect(result.output.hasSuffix("own") && !result.output.contains("secret\n"), "\(result.output)")
                #expect(!result.output.contains("the-secret") && !result.output.contains("late-secret"))
            }
        }

        @Test func `nothing runs in a view that the daemon does not know of`() async throws {
            try await mounted { account in
                try account.cove("container create com.a.box --app com.a.app")
                try account.expectRefusal(
                    "$COVE run --app com.none.app -- echo never",
                    "com.none.app: no such app; register it with `cove app register`"
                )
                try account.expectRefusal(
                    "$COVE run -- echo never",
                    "--app: is needed; say as which app it runs",
                    status: 2
                )
                let status = try account.start("$COVE run --app com.a.app -- sh -c 'exit 7'").wait(deadline: 30).status
                #expect(status == 7)
                let missing = try account.start("$COVE run --app com.a.app -- no-such-program").wait(deadline: 30)
                #expect(missing.status != 0 && missing.output.isEmpty)
            }
        }
    }
}
