internal import CLinux
internal import CoveCore
internal import Glibc

/// Starts an account's daemon, keeps its descriptors while it is dead, and starts it again: the mount stays.
///
/// It never touches the mount or the state directory, and it does nothing that could wait but poll(2).
struct Keeper {
    private enum Ending {
        case over(Int32)
        case restart(isFailure: Bool)
    }

    /// The words after the program's name.
    private let words: [String]
    /// The program the daemon is started from, pinned: an update that is half done starts nothing.
    private var program: Int32
    /// The program to go back to while a new one has not served yet.
    private var formerProgram: Int32?
    private var kept: [(name: String, descriptor: Int32)] = []
    private var readyPipe: Int32?
    private var generation: UInt32 = 0
    private var policy = RestartPolicy()
    private let signals: Int32

    /// Runs to the mount's end; the exit status.
    static func main(_ arguments: [String]) -> Int32 {
        var words = arguments
        var pipe: Int32?
        let hasPipe = words.first == "--ready"
        // What a careless parent left open would be kept for as long as the mount.
        _ = cove_close_range(UInt32(KeeperPacket.descriptor) + (hasPipe ? 1 : 0), UInt32.max)
        if hasPipe {
            words.removeFirst()
            pipe = try? Self.high(KeeperPacket.descriptor)
        }
        guard let path = words.first, !path.hasPrefix("-") else {
            let text = Array("cove-keeper: it is started by `cove mount`\n".utf8)
            text.withUnsafeBytes { try? System.writeAll(2, $0) }
            return DaemonExit.misused
        }
        do throws(Errno) {
            var keeper = try Keeper(program: path, words: Array(words.dropFirst()), readyPipe: pipe)
            // Nothing of where it was started is kept in use.
            if hasPipe { setsid() }
            _ = chdir("/")
            return keeper.run()
        } catch {
            let text = Array("cove: \(path): it can't be started: \(error)\n".utf8)
            text.withUnsafeBytes { try? System.writeAll(2, $0) }
            return DaemonExit.failed
        }
    }

    private init(program path: String, words: [String], readyPipe: Int32?) throws(Errno) {
        self.words = words
        self.readyPipe = readyPipe
        program = try Self.high(System.open(path, Int32(COVE_O_PATH)))
        var set = sigset_t()
        sigemptyset(&set)
        var mask: UInt64 = 0
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            sigaddset(&set, signal)
            mask |= 1 << UInt64(signal - 1)
        }
        sigprocmask(SIG_BLOCK, &set, nil)
        signals = try System.retry { cove_signalfd(mask) }
        // When memory is short the kernel writes back what programs wrote, through the daemon that this process starts.
        _ = cove_lock_memory()
        if let file = try? System.open("/proc/self/oom_score_adj", O_WRONLY) {
            defer { System.close(file) }
            Array("-1000".utf8).withUnsafeBytes { try? System.writeAll(file, $0) }
        }
        _ = cove_set_undumpable()
    }

    /// The descriptor under a number that no daemon finds something else at.
    private static func high(_ descriptor: Int32) throws(Errno) -> Int32 {
        defer { System.close(descriptor) }
        return try System.retry { fcntl(descriptor, F_DUPFD_CLOEXEC, 10) }
    }

    private mutating func run() -> Int32 {
        while true {
            let started = System.monotonic()
            let ending: Ending
            do throws(Errno) {
                ending = try serve()
            } catch {
                tell("the daemon can't be started: \(error)")
                if !kept.isEmpty, let pause = policy.pause(afterShortageAt: System.monotonic(), error) {
                    pause.block()
                    continue
                }
                ending = kept.isEmpty ? .over(DaemonExit.failed) : .restart(isFailure: true)
            }
            let hasLasted = System.monotonic() - started >= RestartPolicy.trial
            if hasLasted, let former = formerProgram {
                System.close(former)
                formerProgram = nil
            }
            switch ending {
            case .over(let status):
                endConnection()
                return status
            case .restart(let isFailure):
                if isFailure, let former = formerProgram {
                    tell("the new program does not serve: back to the former one")
                    System.close(program)
                    program = former
                    formerProgram = nil
                } else if isFailure {
                    guard let pause = policy.pause(afterFailureAt: System.monotonic(), started: started) else {
                        tell("a third daemon died, and it had kept off much: the mount is given up; run `cove doctor`")
                        endConnection()
                        return DaemonExit.failed
                    }
                    if policy.isCareful {
                        tell("two daemons died within a minute: the next one keeps off what they had in hand")
                    }
                    pause.block()
                } else {
                    policy.begin()
                }
                generation += 1
            }
        }
    }

    /// Starts a daemon and waits for its end.
    private mutating func serve() throws(Errno) -> Ending {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try System.retry { socketpair(AF_UNIX, type, 0, &pair) }
        let socket: Int32
        do throws(Errno) { socket = try Self.high(pair[0]) } catch {
            System.close(pair[1])
            throw error
        }
        defer { System.close(socket) }
        let started = Result { () throws(Errno) in try start(pair[1]) }
        System.close(pair[1])
        let daemon = try started.get()
        if let readyPipe { System.close(readyPipe) }
        readyPipe = nil
        let text = ["\(KeeperPacket.version)"] + kept.map(\.name) + (policy.isCareful ? [KeeperPacket.careful] : [])
        let greeting = KeeperPacket(
            .greeting,
            number: generation,
            text: text.joined(separator: "\n"),
            descriptors: kept.map(\.descriptor)
        )
        try? greeting.send(on: socket)
        let handle: Int32
        do throws(Errno) {
            handle = try System.retry { cove_pidfd_open(daemon) }
        } catch {
            // Without that its end would not be seen, and never may two work on one mount.
            kill(daemon, SIGKILL)
            waitpid(daemon, nil, 0)
            throw error
        }
        defer { System.close(handle) }
        var isReady = false
        var hasSocket = true
        while true {
            var entries = [handle, signals, hasSocket ? socket : -1].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            guard poll(&entries, nfds_t(entries.count), -1) > 0 else { continue }
            if entries[1].revents != 0 { forwardSignal(to: socket) }
            // What it said before it died counts.
            if entries[2].revents != 0 {
                // An error stands for its end too: it died before it read what was sent to it.
                if let packet = (try? KeeperPacket.receive(on: socket)) ?? nil {
                    take(packet, &isReady)
                } else {
                    hasSocket = false
                }
                continue
            }
            if entries[0].revents != 0 { return ending(of: daemon, isReady) }
        }
    }

    private func start(_ socket: Int32) throws(Errno) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, socket, KeeperPacket.descriptor)
        if let readyPipe {
            posix_spawn_file_actions_adddup2(&actions, readyPipe, KeeperPacket.descriptor + 1)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A group of its own: the terminal's signals come once, from here.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETPGROUP))
        let list = (["cove"] + words).map { strdup($0) } + [nil]
        defer { list.forEach { free($0) } }
        var child = pid_t()
        let error = posix_spawn(&child, "/proc/self/fd/\(program)", &actions, &attributes, list, environ)
        if error != 0 { throw Errno(error) }
        // The first daemon has them, and hands them over for the next ones.
        ProcessEnvironment.takeSecrets()
        return child
    }

    private func forwardSignal(to socket: Int32) {
        // struct signalfd_siginfo
        var information = [UInt8](repeating: 0, count: 128)
        _ = read(signals, &information, information.count)
        // The daemon takes a second one for impatience.
        try? KeeperPacket(.end).send(on: socket)
    }

    private mutating func take(_ packet: KeeperPacket, _ isReady: inout Bool) {
        switch packet.kind {
        case .ready:
            if isReady { policy.begin() }
            isReady = true
        case .keep:
            guard let descriptor = packet.descriptors.first else { return }
            if let index = kept.firstIndex(where: { $0.name == packet.text }) {
                System.close(kept[index].descriptor)
                kept[index].descriptor = descriptor
            } else {
                kept.append((packet.text, descriptor))
            }
        case .replace:
            guard let descriptor = packet.descriptors.first else { return }
            if let formerProgram { System.close(formerProgram) }
            formerProgram = program
            program = (try? Self.high(descriptor)) ?? program
        case .settled:
            guard let former = formerProgram else { return }
            System.close(former)
            formerProgram = nil
        case .greeting, .end: break
        }
    }

    private func ending(of daemon: pid_t, _ isReady: Bool) -> Ending {
        var status: Int32 = 0
        while waitpid(daemon, &status, 0) < 0, Errno.current == .interrupted {}
        let signal = status & 0x7F
        let code = status >> 8 & 0xFF
        guard signal == 0 else {
            // Killed by somebody is no failure of its own.
            if generation == 0, !isReady { return .over(DaemonExit.failed) }
            return .restart(isFailure: !isReady || signal != SIGKILL)
        }
        switch code {
        case DaemonExit.over: return .over(DaemonExit.over)
        case DaemonExit.left: return .over(DaemonExit.failed)
        case DaemonExit.replaced: return .restart(isFailure: false)
        default: return generation == 0 && !isReady ? .over(code) : .restart(isFailure: true)
        }
    }

    /// Ends the connection to the kernel, where a helper of the daemon that waits in the kernel still holds it.
    private func endConnection() {
        guard let file = kept.first(where: { $0.name == "abort" })?.descriptor else { return }
        _ = write(file, "1", 1)
    }

    /// Writes a line to the account's log, once the daemon has handed it over.
    private func tell(_ line: String) {
        let log = kept.first { $0.name == "log" }?.descriptor ?? 2
        Log(descriptor: log).error("keeper: \(line)")
    }
}
