internal import CLinux
public import Glibc

/// Starts processes with nothing of this one's but what is named.
public enum ChildProcess {
    /// Where the child's standard error goes.
    public enum StandardError: Sendable { case inherited, null }

    /// Which process group the child belongs to, and so which terminal signals it gets.
    public enum Group: Sendable { case inherited, own }

    /// posix_spawn(3) of Cove's own executable, or of another; the descriptors become the numbers from 3 on.
    public static func start(
        _ arguments: [String],
        program: String = "/proc/self/exe",
        descriptors: [Int32] = [],
        standardError: StandardError,
        group: Group
    ) throws(Errno) -> pid_t {
        let name = program.hasPrefix("/proc/") ? "cove" : program
        return try spawn(program, [name] + arguments, descriptors, standardError, group)
    }

    /// Starts another program in a group of its own, with an environment of its own where one is given, and the descriptors as its standard input, output and error.
    public static func start(
        _ program: String,
        _ arguments: [String],
        environment: [String]? = nil,
        input: Int32,
        output: Int32,
        errors: Int32
    ) throws(Errno) -> pid_t {
        try spawn(
            program,
            [program] + arguments,
            [],
            .null,
            .own,
            environment: environment,
            input: input,
            output: output,
            errors: errors
        )
    }

    /// True when a child has ended within the limit; it stays to be asked how.
    ///
    /// Blocks.
    public static func hasEnded(_ child: pid_t, within limit: TimeSpan) -> Bool {
        guard let handle = try? System.retry({ cove_pidfd_open(child) }) else { return true }
        defer { System.close(handle) }
        var entry = pollfd(fd: handle, events: Int16(POLLIN), revents: 0)
        return (try? System.retry { poll(&entry, 1, limit.pollMilliseconds) }) == 1
    }

    /// How a child has ended, in a few words; nil when it has not within the limit.
    ///
    /// Blocks.
    public static func status(of child: pid_t, within limit: TimeSpan) -> String? {
        _ = hasEnded(child, within: limit)
        var status: Int32 = 0
        guard waitpid(child, &status, WNOHANG) == child else { return nil }
        return status & 0x7F == 0 ? "exit status \((status >> 8) & 0xFF)" : "signal \(status & 0x7F)"
    }

    /// Runs a system program to its end, with an environment of its own where one is given; its exit status, or nil when it
    /// had to be ended, at the time limit or when the watch, which is asked now and then, is against it.
    public static func run(
        _ program: String,
        _ arguments: [String],
        environment: [String]? = nil,
        input: Int32? = nil,
        output: Int32? = nil,
        limit: TimeSpan,
        watch: (pid_t) -> Bool = { _ in true }
    ) throws(Errno) -> Int32? {
        let child = try spawn(
            program,
            [program] + arguments,
            [],
            .null,
            .own,
            environment: environment,
            input: input,
            output: output
        )
        let deadline = System.monotonic() + limit
        var pause = TimeSpan.milliseconds(1)
        while true {
            var status: Int32 = 0
            let result = waitpid(child, &status, WNOHANG)
            if result == child { return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F) }
            if result < 0, Errno.current != .interrupted { throw Errno.current }
            if System.monotonic() >= deadline || !watch(child) { break }
            _ = poll(nil, 0, pause.pollMilliseconds)
            pause = min(pause.doubled(1), .milliseconds(16))
        }
        end(child)
        return nil
    }

    /// Kills a child and takes its status, so that nothing is left of it.
    ///
    /// One that the kernel holds is not waited for here, but on a thread that has nothing else to do.
    public static func end(_ child: pid_t) {
        kill(child, SIGKILL)
        _ = hasEnded(child, within: .seconds(2))
        if waitpid(child, nil, WNOHANG) == 0 { try? BlockingThread.start { waitpid(child, nil, 0) } }
    }

    /// Waits for a child's end, but not for ever.
    public static func await(_ child: pid_t, limit: TimeSpan) {
        _ = hasEnded(child, within: limit)
        waitpid(child, nil, WNOHANG)
    }

    private static func spawn(
        _ program: String,
        _ arguments: [String],
        _ descriptors: [Int32],
        _ standardError: StandardError,
        _ group: Group,
        environment: [String]? = nil,
        input: Int32? = nil,
        output: Int32? = nil,
        errors: Int32? = nil
    ) throws(Errno) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for number in Int32(0)...(standardError == .null ? 2 : 1) {
            posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
        }
        if let input { posix_spawn_file_actions_adddup2(&actions, input, 0) }
        if let output { posix_spawn_file_actions_adddup2(&actions, output, 1) }
        if let errors { posix_spawn_file_actions_adddup2(&actions, errors, 2) }
        // Through numbers that are free, for one may be another's target.
        let first = Int32(3)
        let spare = Int32(100)
        for (index, descriptor) in descriptors.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor, spare + Int32(index))
        }
        for index in descriptors.indices {
            posix_spawn_file_actions_adddup2(&actions, spare + Int32(index), first + Int32(index))
        }
        // This process has some from its own parent that are not closed at an exec.
        _ = cove_spawn_closes_from(&actions, first + Int32(descriptors.count))
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A daemon blocks and ignores signals that its children are to obey.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        var flags = Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)
        if group == .own { flags |= Int32(POSIX_SPAWN_SETPGROUP) }
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let list = arguments.map { strdup($0) } + [nil]
        let own = environment.map { $0.map { strdup($0) } + [nil] }
        defer {
            list.forEach { free($0) }
            own?.forEach { free($0) }
        }
        var child = pid_t()
        for attempt in 0... {
            let error =
                if let own {
                    posix_spawnp(&child, program, &actions, &attributes, list, own)
                } else {
                    posix_spawnp(&child, program, &actions, &attributes, list, environ)
                }
            if error == 0 { break }
            // A program that was written a moment ago may be open in a process that is just being started.
            guard error == ETXTBSY, attempt < 50 else { throw Errno(error) }
            _ = poll(nil, 0, 10)
        }
        return child
    }
}
