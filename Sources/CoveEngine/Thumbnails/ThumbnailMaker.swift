internal import CoveCore
internal import Glibc

/// Has the desktop's programs make pictures, each shut in by bubblewrap(1): it sees the system's programs, one file to be read
/// and an empty folder, has no network, and ends after a while.
struct ThumbnailMaker: Sendable {
    /// How long a program may take, all of them for one file.
    private static let timeLimit = TimeSpan.seconds(20)
    /// How much memory one may have, and how long its files may be, in bytes.
    private static let memory = 2 << 30
    private static let fileSize = 64 << 20
    private static let sharedSpace = 16 << 20
    private static let temporarySpace = 128 << 20
    private static let inputFolder = "/in"
    private static let outputFolder = "/out"

    /// A folder for what they make.
    let folder: String
    /// How long they may take.
    var limit = ThumbnailMaker.timeLimit

    /// True where there is what shuts them in.
    static var canRun: Bool { Sandbox.find("bwrap") != nil && Sandbox.find("prlimit") != nil }

    /// A picture of a file, which a program sees under a name; nil where it made none that is one.
    ///
    /// Blocks.
    func picture(of file: String, named name: String, by program: Thumbnailers.Program) -> Picture? {
        // One of noise can be too long a file at its full size.
        run(program, file, named: name, sides: [Picture.greatestSide, Picture.greatestSide / 2], all: false).first?
            .picture
    }

    /// The same of a file's bytes.
    ///
    /// Blocks.
    func picture(of bytes: [UInt8], named name: String, by program: Thumbnailers.Program) -> Picture? {
        withFile(bytes) { picture(of: $0, named: name, by: program) } ?? nil
    }

    /// Smaller ones of a picture, by how many pixels they have at most in a row or a column.
    ///
    /// Blocks.
    func reduced(_ picture: Picture, to sides: [Int], by program: Thumbnailers.Program) -> [Int: Picture] {
        let made = withFile(picture.bytes(texts: [:])) {
            run(program, $0, named: "picture.png", sides: sides, all: true)
        }
        return Dictionary((made ?? []).map { ($0.side, $0.picture) }) { first, _ in first }
    }

    private func withFile<Value>(_ bytes: [UInt8], _ body: (String) -> Value) -> Value? {
        let file = "\(folder)/\(DocumentID.random())"
        defer { try? System.unlink(file) }
        guard (try? System.makeDirectories(folder)) != nil, (try? ThumbnailCache.write(bytes, to: file)) != nil else {
            return nil
        }
        return body(file)
    }

    /// Removes what a death has left.
    func clean() { remove(folder) }

    /// Runs a program once for each size; what it has made, as far as that can be used.
    private func run(
        _ program: Thumbnailers.Program,
        _ file: String,
        named name: String,
        sides: [Int],
        all wantsAll: Bool
    ) -> [(side: Int, picture: Picture)] {
        guard let bwrap = Sandbox.find("bwrap"), let prlimit = Sandbox.find("prlimit") else { return [] }
        let output = "\(folder)/\(DocumentID.random())"
        guard (try? System.makeDirectories(output)) != nil else { return [] }
        defer { remove(output) }
        let input = "\(Self.inputFolder)/\(name)"
        let limits = [
            prlimit, "--data=\(Self.memory)", "--core=0", "--cpu=\(Self.timeLimit.pollMilliseconds / 1000)",
            "--fsize=\(Self.fileSize)", "--nofile=256",
        ]
        var world = [bwrap] + Sandbox.own + Sandbox.system()
        for file in ["/etc/fonts", "/var/cache/fontconfig"] { world += ["--ro-bind-try", file, file] }
        world += Sandbox.devices(shared: Self.sharedSpace, temporary: Self.temporarySpace)
        if let path = program.words.first, !path.hasPrefix("/usr/") { world += ["--ro-bind-try", path, path] }
        world += ["--ro-bind", file, input, "--bind", output, Self.outputFolder] + Sandbox.end
        let environment = [
            "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "XDG_CACHE_HOME=/tmp/cache", "XDG_RUNTIME_DIR=/tmp",
            "LANG=C.UTF-8",
        ]
        let end = System.monotonic() + limit
        var made: [(side: Int, picture: Picture)] = []
        for side in sides {
            let left = end - System.monotonic()
            guard left > .zero else { break }
            let command = program.command(input: input, output: "\(Self.outputFolder)/\(side).png", side: side)
            let words = Array((limits + world + command).dropFirst())
            guard (try? ChildProcess.run(prlimit, words, environment: environment, limit: left)) == 0 else { continue }
            // It may have left a link, a pipe or anything else there.
            if let picture = ThumbnailCache.read("\(output)/\(side).png"), picture.width <= side, picture.height <= side
            {
                made.append((side, picture))
                if !wantsAll { break }
            }
        }
        return made
    }

    /// Removes what a program has left; folders that it made in there are emptied, too, as far as a few steps go.
    private func remove(_ path: String, depth: Int = 8) {
        guard depth > 0 else { return }
        for name in (try? System.names(in: path)) ?? [] {
            let inner = "\(path)/\(name)"
            if let status = try? System.lstat(inner), status.st_mode & S_IFMT == S_IFDIR {
                remove(inner, depth: depth - 1)
            }
            try? System.unlink(inner)
        }
        rmdir(path)
    }
}
