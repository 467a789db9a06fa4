import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Whose a program is by its unit of systemd and by Flatpak, and what others do to pass for one of these.
    struct ForgedIdentityTests {
        private typealias Names = IdentityTests

        /// Runs a command in a control group, as a service manager makes them, which is gone after that.
        ///
        /// It takes root and a hierarchy of control groups that can be written, as a machine and most containers have it.
        private static let inGroup = """
            in_group() {
                local root=/sys/fs/cgroup group=$1; shift
                [ -d $root/systemd ] && root=$root/systemd
                (
                    # Another test may just take away what both need.
                    for try in {1..100}; do
                        mkdir -p "$root/$group" 2>/dev/null && echo $BASHPID 2>/dev/null > "$root/$group/cgroup.procs" && break
                    done
                    exec "$@"
                )
                while [ -d "$root/$group" ] && ! rmdir "$root/$group" 2>/dev/null; do sleep 0.01; done
                while group=${group%/*}; rmdir "$root/$group" 2>/dev/null && [[ $group == */* ]]; do :; done
            }
            app=user.slice/user-0.slice/user@0.service/app.slice

            """

        private func who(in group: String, _ account: MountedAccount, _ program: String = "$tmp/python") throws
            -> String
        {
            try account.shell(Self.inGroup + "in_group \"\(group)\" \(program) $tmp/ask.py")
        }

        @Test func `a program is the app whose unit it runs in`() async throws {
            try await IdentityTests.account { account in
                try account.cove("app register com.b.app --unit b-sync.service --unit b-part@.service")
                for (group, answer) in [
                    ("$app/app-com.a.app-7.scope", Names.a), ("$app/app-gnome-com.a.app-7.scope", Names.a),
                    ("$app/app-com.a.app@autostart.service", Names.a), ("$app/app-com.a.app.service", Names.a),
                    ("$app/app-graphical.slice/app-com.b.app@1.service", Names.b),
                    ("$app/app-com.a.app-7.scope/tab-1.scope", Names.a),
                    ("system.slice/b-sync.service", Names.b), ("$app/b-sync.service", Names.b),
                    ("$app/b-part@one.service", Names.b),
                    // No app that the account knows, and other units.
                    ("$app/app-org.gnome.Terminal-7.scope", Names.user), ("$app/b-part.service", Names.user),
                    ("system.slice/a.service", Names.user), ("$app/com.a.app.service", Names.user),
                    // The random part of a name, and what is written as the user likes.
                    ("$app/app-gnome-x-com.a.app.scope", Names.user),
                    // No unit of a manager's: anybody's group of that name.
                    ("app-com.a.app-7.scope", Names.user), ("mine/app.slice/app-com.a.app-7.scope", Names.user),
                    ("user.slice/user-7.slice/user@7.service/app.slice/app-com.a.app-7.scope", Names.user),
                    ("user.slice/user-0.slice/session-1.scope/app-com.a.app-7.scope", Names.user),
                    // What a unit's own programs make below it makes them no other app.
                    ("$app/app-com.b.app-7.scope/app-com.a.app-8.scope", Names.b),
                    ("$app/b-sync.service/app.slice/app-com.a.app-8.scope", Names.b),
                    ("system.slice/a.service/app-com.a.app-8.scope", Names.user),
                ] { #expect(try who(in: group, account) == answer, "\(group)") }
                // What the app has done by the user's own program the user does.
                let picked =
                    "in_group $app/app-com.a.app-7.scope $COVE pick --app com.a.app --mode open --choose b/Documents/own.txt"
                #expect(try account.shell(Self.inGroup + picked) == "\(account.mount)/a/Documents/own.txt\n")
                #expect(try account.cove("app ls").contains("com.b.box  known by b-sync.service, b-part@.service"))
            }
        }

        @Test func `signs of two apps make a program nobody's`() async throws {
            try await IdentityTests.account { account in
                try account.cove("app register com.a.app --executable $tmp/notes")
                #expect(try who(in: "$app/app-com.a.app-7.scope", account, "$tmp/notes") == Names.a)
                #expect(
                    try who(in: "$app/app-com.b.app-7.scope", account, "$tmp/notes")
                        == "by its unit app-com.b.app-7.scope it is com.b.app, by \(account.scratch.appending("notes")) com.a.app; end what is wrong\n"
                )
                let flatpak = try who(in: "$app/app-flatpak-com.a.app-7.scope", account)
                #expect(flatpak.contains("is Flatpak's, and it is in no sandbox of Flatpak's"), "\(flatpak)")
                // Nobody's program may do nothing, on both sockets.
                let script = """
                    from ask import *
                    for name in ('user.cove.socket', 'user.cove.coordination-socket'):
                        for method in ('Account.Status', 'Item.Info', 'Query.Run', 'Coordination.Claims', 'Access.Apps', 'Access.Give', 'Access.RegisterApp', 'Access.Grants'):
                            reply = call(connect(name), 'io.cove.' + method, path='a/Documents/report.txt', app='com.a.app', manifest='{}', predicate='TRUEPREDICATE')
                            print(method, reply.get('errno') or sorted(reply))
                    """
                try account.shell("cat > $tmp/all.py <<'END'\n\(script)\nEND")
                let said = try account.shell(
                    Self.inGroup + "in_group $app/app-com.b.app-7.scope $tmp/notes $tmp/all.py"
                )
                for line in said.split(separator: "\n") {
                    #expect(
                        line.hasSuffix(" 13") || line.hasSuffix("['interface']") || line.hasSuffix("['method']"),
                        "\(line)"
                    )
                }
                #expect(said.components(separatedBy: " 13\n").count > 10, "\(said)")
            }
        }

        /// What Flatpak does to start an app: a file that describes it inside, and the same outside of the sandbox.
        ///
        /// `flatpak INSTANCE APP COMMAND…` keeps the instance in `$XDG_RUNTIME_DIR`, `sandbox INFO COMMAND…` does not.
        private static let flatpak = """
            export XDG_RUNTIME_DIR=@RUN@
            inside="--unshare-user --unshare-pid --unshare-ipc --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --bind $tmp $tmp --bind @RUN@ @RUN@"
            info() { printf '[Application]\\nname=%s\\nruntime=runtime/org.example.Platform/x86_64/1\\n\\n[Instance]\\ninstance-id=%s\\n' "$2" "$1"; }
            sandbox() {
                local info=$1; shift
                bwrap $inside --ro-bind-data 8 /.flatpak-info "$@" 8<$info
            }
            flatpak() {
                local folder=$XDG_RUNTIME_DIR/.flatpak/$1; mkdir -p $folder
                info "$1" "$2" > $folder/info; shift 2
                local gate="until [ -s $folder/bwrapinfo.json ]; do sleep 0.01; done; exec \\"\\$@\\""
                bwrap $inside --info-fd 9 --ro-bind-data 8 /.flatpak-info sh -c "$gate" sh "$@" 8<$folder/info 9>$folder/bwrapinfo.json
            }

            """

        private func inRuntime(
            _ body: @escaping @Sendable (MountedAccount, @escaping @Sendable (String) throws -> String) throws -> Void
        ) async throws {
            let runtime = try TemporaryDirectory("r")
            let path = runtime.path
            try await IdentityTests.account(variables: ["XDG_RUNTIME_DIR": path]) { account in
                let prelude = Self.flatpak.replacingOccurrences(of: "@RUN@", with: path)
                try body(account) { try account.shell(prelude + $0) }
            }
            withExtendedLifetime(runtime) {}
        }

        @Test func `a program that Flatpak has started is the app that Flatpak says`() async throws {
            try await inRuntime { account, run in
                let ask = "$tmp/python $tmp/ask.py"
                #expect(try run("flatpak 71 com.a.app \(ask)") == Names.a)
                #expect(try run("flatpak 72 com.b.app sh -c '\(ask); unshare -Urpf \(ask)'") == Names.b + Names.b)
                // One that the account does not know has nothing.
                #expect(try run("flatpak 73 org.example.App \(ask)") == "\n")
                // In the unit that Flatpak makes for it, and in another's.
                let inGroup = Self.inGroup + "export -f flatpak info; export inside; "
                #expect(
                    try run(
                        "\(inGroup) in_group $app/app-flatpak-com.a.app-74.scope bash -c 'flatpak 74 com.a.app \(ask)'"
                    )
                        == Names.a
                )
                let other = try run(
                    "\(inGroup) in_group $app/app-flatpak-com.b.app-75.scope bash -c 'flatpak 75 com.a.app \(ask)'"
                )
                #expect(
                    other.hasPrefix("by Flatpak it is com.a.app, by its unit app-flatpak-com.b.app-75.scope com.b.app")
                )
                // A file of another app that runs in it.
                try account.cove("app register com.b.app --executable $tmp/notes")
                #expect(try run("flatpak 76 com.a.app $tmp/notes $tmp/ask.py").contains("runs in a sandbox"))
                #expect(try run("flatpak 77 com.b.app $tmp/notes $tmp/ask.py") == Names.b)
                // A view decides before anything in it.
                #expect(
                    try account.asApp("b", "bwrap --ro-bind / / true; cat /.flatpak-info").contains("No such file")
                )
            }
        }

        @Test func `a forged description of a Flatpak makes a program nobody's, or leaves it the user's`() async throws
        {
            try await inRuntime { account, run in
                let ask = "$tmp/python $tmp/ask.py"
                let end = "; start it by Flatpak or by `cove run --app`\n"
                // Flatpak knows nothing of it.
                #expect(
                    try run("info 81 com.a.app > $tmp/i; sandbox $tmp/i \(ask)")
                        == "Flatpak has no instance 81 of com.a.app\(end)"
                )
                // It has the name of an instance that runs, or has run, or says another app of it.
                let running =
                    "flatpak 82 com.a.app sh -c 'touch $tmp/up; until [ -e $tmp/down ]; do sleep 0.01; done' & until [ -e $tmp/up ]; do sleep 0.01; done; "
                let forged = try run(
                    "\(running) info 82 com.a.app > $tmp/i; sandbox $tmp/i \(ask); info 82 com.b.app > $tmp/i; sandbox $tmp/i \(ask); touch $tmp/down; wait; info 82 com.a.app > $tmp/i; sandbox $tmp/i \(ask)"
                )
                let outside = "it is not in the sandbox of Flatpak's instance 82\(end)"
                #expect(forged == "\(outside)Flatpak has no instance 82 of com.b.app\(end)\(outside)")
                // An instance whose first process is gone, and another one has its number.
                #expect(
                    try run(
                        "flatpak 83 com.a.app true; cp $XDG_RUNTIME_DIR/.flatpak/83/info $tmp/i; sed -i \"s/child-pid.*/child-pid\\\": $$,/\" $XDG_RUNTIME_DIR/.flatpak/83/bwrapinfo.json; sandbox $tmp/i \(ask)"
                    ) == "it is not in the sandbox of Flatpak's instance 83\(end)"
                )
                for (text, words) in [
                    ("[Application]\\nname=com.a.app\\n", "its .flatpak-info names no app"),
                    ("[Instance]\\ninstance-id=84\\n", "its .flatpak-info names no app"),
                    (
                        "[Application]\\nname=com.a.app\\n[Instance]\\ninstance-id=../84\\n",
                        "its .flatpak-info names no app"
                    ),
                    ("[Application]\\nname=x\\n[Instance]\\ninstance-id=84\\n", "its .flatpak-info names no app"),
                    ("\\377\\0[[=]\\n", "its .flatpak-info names no app"),
                ] { #expect(try run("printf '\(text)' > $tmp/i; sandbox $tmp/i \(ask)") == words + end, "\(text)") }
                // What is no file can hold nobody up.
                #expect(
                    try run("bwrap $inside --symlink /proc/self/status /.flatpak-info \(ask)")
                        == "its .flatpak-info can't be read: Too many levels of symbolic links\(end)"
                )
                #expect(
                    try run("bwrap $inside --dir /.flatpak-info \(ask)").hasPrefix("its .flatpak-info can't be read")
                )
                #expect(
                    try run("mkfifo $tmp/f; bwrap $inside --bind $tmp/f /.flatpak-info \(ask)").hasPrefix(
                        "its .flatpak-info can't be read"
                    )
                )
                // Outside of any sandbox a root of one's own makes nobody an app: it is what it was.
                let root =
                    "unshare -Urm sh -c 'mkdir $tmp/root; mount --rbind / $tmp/root; mount -t tmpfs none $tmp/root/mnt; mkdir $tmp/root/mnt/x; cd $tmp/root/mnt/x; mkdir usr tmp; info 81 com.a.app > .flatpak-info; exec \(ask)'"
                #expect(
                    try run("export -f info; \(root.replacingOccurrences(of: "sh -c", with: "bash -c"))") == Names.user
                )
            }
        }

        @Test func `a number that is another process's by now tells nothing`() async throws {
            try await IdentityTests.account { account in
                try account.cove("app register com.a.app --executable $tmp/notes")
                // The daemon is held up until the one that connected is gone and a program of the app has its number.
                let script = """
                    import os, signal, subprocess, sys, time
                    from ask import *
                    def spawn(number):
                        for attempt in range(300):
                            try: open('/proc/sys/kernel/ns_last_pid', 'w').write(str(number - 1))
                            except OSError as error: sys.exit('ns_last_pid: %s' % error)
                            p = subprocess.Popen([os.environ['tmp'] + '/notes', '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
                            if p.pid == number: return p
                            p.stdin.close(); p.wait()
                        sys.exit('the number can not be had')
                    daemon = int(sys.argv[1])
                    path = os.getxattr(os.environ['mnt'], 'user.cove.socket')
                    os.kill(daemon, signal.SIGSTOP)
                    try:
                        s = socket.socket(socket.AF_UNIX); s.settimeout(30)
                        first = os.fork()
                        if first == 0:
                            s.connect(path); os._exit(0)
                        os.waitpid(first, 0)
                        other = spawn(first)
                    finally: os.kill(daemon, signal.SIGCONT)
                    print(who(s))
                    print(other.poll(), open('/proc/%d/comm' % first).read().strip())
                    other.stdin.close(); other.wait()
                    """
                try account.shell("cat > $tmp/reuse.py <<'END'\n\(script)\nEND")
                let daemon = try account.statistics().daemonPID
                #expect(
                    try account.shell("$tmp/python $tmp/reuse.py \(daemon)")
                        == "the program that connected has ended; connect from one that goes on\nNone notes\n"
                )
            }
        }
    }
}
