internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Runs a person's command in the foreground, as flock(1) and env(1) do.
enum CommandProcess {
    /// The command's process, for the signal handler.
    private static let child = Atomic<Int32>(0)
    /// A signal that the command is to get; it may come before the command is there.
    private static let waiting = Atomic<Int32>(0)

    /// Runs a command with this process's terminal, files and environment; its exit code, or 128 and the signal's number.
    ///
    /// `whenStarted` is called once it is there, or can't be. With descriptors it gets these from 3 on, no others, and an
    /// environment of its own.
    static func run(
        _ words: [[UInt8]],
        alone: (descriptors: [Int32], environment: [String])? = nil,
        whenStarted: () -> Void = {}
    ) -> Int32 {
        let list = words.map { word -> UnsafeMutablePointer<CChar>? in
            strdup((word + [0]).map { CChar(bitPattern: $0) })
        }
        defer { list.forEach { free($0) } }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGPIPE)
        // What nohup(1) and the like have it ignore, the command ignores too.
        for number in [SIGINT, SIGQUIT] where !isIgnored(number) { sigaddset(&defaults, number) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        // The terminal sends these to the command too; what it makes of them is its own business.
        signal(SIGINT, SIG_IGN)
        signal(SIGQUIT, SIG_IGN)
        for number in [SIGTERM, SIGHUP] where !isIgnored(number) {
            signal(number) { number in
                CommandProcess.waiting.store(number, ordering: .sequentiallyConsistent)
                CommandProcess.handOn()
            }
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        let variables = alone.map { $0.environment.map { strdup($0) } + [nil] }
        defer { variables?.forEach { free($0) } }
        if let descriptors = alone?.descriptors {
            // Through numbers that are free, for one may be another's target.
            for (index, descriptor) in descriptors.enumerated() {
                posix_spawn_file_actions_adddup2(&actions, descriptor, 200 + Int32(index))
            }
            for index in descriptors.indices {
                posix_spawn_file_actions_adddup2(&actions, 200 + Int32(index), 3 + Int32(index))
            }
            _ = cove_spawn_closes_from(&actions, 3 + Int32(descriptors.count))
        }
        var process = pid_t()
        let program: UnsafePointer<CChar> = UnsafePointer(list[0] ?? strdup(""))
        let error: Int32
        if let variables {
            error = posix_spawnp(&process, program, &actions, &attributes, list + [nil], variables)
        } else {
            error = posix_spawnp(&process, program, &actions, &attributes, list + [nil], environ)
        }
        whenStarted()
        guard error == 0 else {
            Tool.report(Failure(String(decoding: words[0], as: UTF8.self), "\(Errno(error))", "check the command"))
            return error == ENOENT ? 127 : 126
        }
        child.store(process, ordering: .sequentiallyConsistent)
        handOn()
        while true {
            var status: Int32 = 0
            let ended = waitpid(-1, &status, 0)
            if ended < 0, Errno.current != .interrupted { return 1 }
            guard ended == process else { continue }
            return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
        }
    }

    private static func handOn() {
        let process = child.load(ordering: .sequentiallyConsistent)
        guard process > 0 else { return }
        let number = waiting.exchange(0, ordering: .sequentiallyConsistent)
        if number != 0 { _ = kill(process, number) }
    }

    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
            == unsafeBitCast(SIG_IGN, to: Int.self)
    }
}
