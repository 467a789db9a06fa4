internal import Glibc

/// How users appear in this process's user namespace; see user_namespaces(7).
struct UserMap {
    private struct Range {
        var inside: UInt64
        var outside: UInt64
        var count: UInt64
    }

    private let ranges: [Range]

    /// Reads the lines of a uid_map file.
    init(parsing text: String) {
        ranges = text.split(separator: "\n").compactMap { line in
            let numbers = line.split(separator: " ").compactMap { UInt64($0) }
            guard numbers.count == 3 else { return nil }
            return Range(inside: numbers[0], outside: numbers[1], count: numbers[2])
        }
    }

    /// The map of this process.
    static func own() -> UserMap {
        guard let file = try? System.open("/proc/self/uid_map", O_RDONLY) else { return UserMap(parsing: "") }
        defer { System.close(file) }
        return UserMap(parsing: String(decoding: (try? System.contents(file)) ?? [], as: UTF8.self))
    }

    /// What a user outside of the namespace is inside; nil for one that is nobody there.
    func inside(_ user: UInt32) -> UInt32? {
        for range in ranges {
            guard UInt64(user) >= range.outside else { continue }
            let (distance, end) = (UInt64(user) - range.outside, range.inside.addingReportingOverflow(range.count))
            if distance < range.count, !end.overflow { return UInt32(exactly: range.inside + distance) }
        }
        return nil
    }
}
