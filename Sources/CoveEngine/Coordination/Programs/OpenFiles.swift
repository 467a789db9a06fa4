internal import CoveCore
internal import Glibc

/// What /proc tells of the files that programs have open.
enum OpenFiles {
    /// The processes that have files of these paths open for writing; nothing is looked up on any mount.
    static func writers(of paths: Set<[UInt8]>) -> [(path: [UInt8], process: Int32)] {
        var found: [(path: [UInt8], process: Int32)] = []
        for process in numbers(in: "/proc") {
            var seen: Set<[UInt8]> = []
            let folder = "/proc/\(process)/fd"
            guard let descriptor = try? System.open(folder, O_RDONLY | O_DIRECTORY) else { continue }
            defer { System.close(descriptor) }
            for file in numbers(in: folder) {
                guard let target = try? System.readlinkat(descriptor, Array("\(file)".utf8)), paths.contains(target),
                    !seen.contains(target), isForWriting(process, file)
                else { continue }
                seen.insert(target)
                found.append((target, process))
            }
        }
        return found
    }

    /// The processes that have mapped files of these paths to write to them; they may have closed them since.
    ///
    /// To be asked for on a thread that may wait, for one that waits for such a file holds what this needs.
    static func mappers(of paths: Set<[UInt8]>) -> [(path: [UInt8], process: Int32)] {
        numbers(in: "/proc").flatMap { process in mapped(by: process, paths).map { ($0, process) } }
    }

    /// How much of a process's list of mappings is looked at.
    private static let longestList = 4 << 20

    /// proc_pid_maps(5): a line has the addresses, the access, three numbers and the path.
    private static func mapped(by process: Int32, _ paths: Set<[UInt8]>) -> Set<[UInt8]> {
        guard let descriptor = try? System.open("/proc/\(process)/maps", O_RDONLY) else { return [] }
        defer { System.close(descriptor) }
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 64 << 10)
        while text.count < longestList {
            let count = part.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, Int64(text.count))) ?? 0 }
            if count == 0 { break }
            text += part[..<count]
        }
        var found: Set<[UInt8]> = []
        for line in text.split(separator: 0x0A) {
            guard let start = line.firstIndex(of: 0x2F) else { continue }
            let path = Array(line[start...])
            guard paths.contains(path), let letters = line.split(separator: 0x20, maxSplits: 2).dropFirst().first else {
                continue
            }
            // Shared, and to be written.
            if letters.contains(0x73), letters.contains(0x77) { found.insert(path) }
        }
        return found
    }

    private static func numbers(in folder: String) -> [Int32] {
        ((try? System.names(in: folder)) ?? []).compactMap { Int32($0) }
    }

    /// proc_pid_fdinfo(5): the flags are octal.
    private static func isForWriting(_ process: Int32, _ file: Int32) -> Bool {
        guard let descriptor = try? System.open("/proc/\(process)/fdinfo/\(file)", O_RDONLY) else { return false }
        defer { System.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 512)
        let count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
        let lines = String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n")
        guard let flags = lines.first(where: { $0.hasPrefix("flags:") })?.split(separator: "\t").last,
            let bits = Int32(flags, radix: 8)
        else { return false }
        return bits & O_ACCMODE != O_RDONLY
    }
}
