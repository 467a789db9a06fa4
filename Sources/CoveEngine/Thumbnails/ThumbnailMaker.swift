internal import CoveCore
internal import Glibc

/// Has the desktop's programs make pictures, each shut in by bubblewrap(1): it sees the system's programs, one file to be read
/// and an empty folder, has no network, and ends after a while.
struct ThumbnailMaker: Sendable {
    /// What became of a file.
    enum Outcome: Sendable {
        case picture(Picture)
        /// The program made none that is one.
        case nothing
        /// It had to be ended, for it took too long.
        case late
        /// It could not be started.
        case unable

        var picture: Picture? { if case .picture(let picture) = self { picture } else { nil } }
    }

    /// How long a program may take, all of them for one file.
    private static let timeLimit = TimeSpan.seconds(20)
    /// How much memory it may have with all that it starts, and room for its files, in bytes.
    private static let memory = 1 << 30
    private static let space = 64 << 20
    private static let sharedSpace = 16 << 20
    private static let inputFolder = "/in"
    private static let outputFolder = "/out"
    private static let result = "/result"
    /// Runs a program that writes to the first argument.
    private static let script = "\"$@\" && cat -- \"$0\" > /result"

    /// A folder for what they make.
    let folder: String
    /// How long they may take.
    var limit = ThumbnailMaker.timeLimit

    /// True where there is what shuts them in.
    static var canRun: Bool { Sandbox.find("bwrap") != nil && Sandbox.find("prlimit") != nil }

    /// A picture of a file, which a program sees under a name.
    ///
    /// Blocks.
    func picture(of file: String, named name: String, by program: Thumbnailers.Program) -> Outcome {
        let side = min(Picture.greatestSide, Self.largestSide(of: file) ?? .max)
        // One of noise can be too long a file at its full size.
        return run(program, file, named: name, sides: [side, max(1, side / 2)])
    }

    private static func largestSide(of file: String) -> Int? {
        guard let descriptor = try? System.open(file, O_RDONLY | O_NONBLOCK) else { return nil }
        defer { System.close(descriptor) }
        let bytes = try? System.contents(descriptor, atMost: ImageSize.prefix)
        return bytes.flatMap { ImageSize.largestSide(in: $0) }
    }

    /// The same of a file's bytes.
    ///
    /// Blocks.
    func picture(of bytes: [UInt8], named name: String, by program: Thumbnailers.Program) -> Outcome {
        withFile(bytes) { picture(of: $0, named: name, by: program) } ?? .unable
    }

    /// Smaller ones of a picture, by how many pixels they have at most in a row or a column, and what became of the last.
    ///
    /// Blocks.
    func reduced(
        _ picture: Picture,
        to sides: [Int],
        by program: Thumbnailers.Program
    ) -> (pictures: [Int: Picture], outcome: Outcome) {
        var reduced: [Int: Picture] = [:]
        var last = Outcome.picture(picture)
        // Each is made of the one before it, which takes less time than to read the largest each time.
        for side in sides.sorted(by: >) {
            guard let former = last.picture else { break }
            last =
                withFile(former.bytes(texts: [:])) { run(program, $0, named: "picture.png", sides: [side]) }
                ?? .unable
            reduced[side] = last.picture
        }
        return (reduced, last)
    }

    private func withFile<Value>(_ bytes: [UInt8], _ body: (String) -> Value) -> Value? {
        let file = "\(folder)/\(DocumentID.random())"
        defer { try? System.unlink(file) }
        guard (try? System.makeDirectories(folder)) != nil, (try? ThumbnailCache.write(bytes, to: file)) != nil else {
            return nil
        }
        return body(file)
    }

    /// Runs a program for each size until it has made something that can be used.
    private func run(
        _ program: Thumbnailers.Program,
        _ file: String,
        named name: String,
        sides: [Int]
    ) -> Outcome {
        guard let bwrap = Sandbox.find("bwrap"), let prlimit = Sandbox.find("prlimit"),
            let result = try? emptyFile()
        else { return .unable }
        defer { try? System.unlink(result) }
        let input = "\(Self.inputFolder)/\(name)"
        let limits = [
            prlimit, "--data=\(Self.memory)", "--core=0", "--cpu=\(Self.timeLimit.pollMilliseconds / 1000)",
            "--fsize=\(Self.space)", "--nofile=256",
        ]
        var world = [bwrap] + Sandbox.own + Sandbox.system()
        for file in ["/etc/fonts", "/var/cache/fontconfig"] { world += ["--ro-bind-try", file, file] }
        world += Sandbox.devices(shared: Self.sharedSpace, temporary: Self.space)
        if let path = program.words.first, !path.hasPrefix("/usr/") { world += ["--ro-bind-try", path, path] }
        // Where it writes there is room in memory for a while; what it is to give away is copied to the one file.
        world += ["--ro-bind", file, input, "--size", "\(Self.space)", "--tmpfs", Self.outputFolder]
        world += ["--bind", result, Self.result] + Sandbox.end + ["/bin/sh", "-c", Self.script]
        let environment = [
            "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "XDG_CACHE_HOME=/tmp/cache", "XDG_RUNTIME_DIR=/tmp",
            "LANG=C.UTF-8",
        ]
        let end = System.monotonic() + limit
        let tree = ProcessLimits(memory: Int64(Self.memory))
        for side in sides {
            let left = end - System.monotonic()
            guard left > .zero else { return .late }
            let output = "\(Self.outputFolder)/\(side).png"
            let command = [output] + program.command(input: input, output: output, side: side)
            let words = Array((limits + world + command).dropFirst())
            do throws(Errno) {
                var isGreedy = false
                let status = try ChildProcess.run(
                    prlimit,
                    words,
                    environment: environment,
                    limit: left,
                    watch: { process in
                        isGreedy = tree.enforce(on: process) != nil
                        return !isGreedy
                    }
                )
                if isGreedy { return .nothing }
                guard let status else { return .late }
                if status != 0 { continue }
            } catch {
                return .unable
            }
            if let picture = ThumbnailCache.read(result), max(picture.width, picture.height) <= side {
                return .picture(picture)
            }
        }
        return .nothing
    }

    private func emptyFile() throws(Errno) -> String {
        try System.makeDirectories(folder)
        let file = "\(folder)/\(DocumentID.random())"
        System.close(try System.open(file, O_WRONLY | O_CREAT | O_EXCL, 0o600))
        return file
    }

    /// Removes what a death has left.
    func clean(olderThan time: Timestamp) {
        for name in (try? System.names(in: folder)) ?? [] {
            let file = "\(folder)/\(name)"
            if let status = try? System.lstat(file), Timestamp(status.st_mtim) < time { try? System.unlink(file) }
        }
    }
}
