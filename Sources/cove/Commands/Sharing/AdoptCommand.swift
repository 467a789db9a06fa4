internal import CoveCore
internal import CoveEngine
internal import Glibc

extension CommandTable {
    static let adopt = Command(
        name: "adopt",
        summary: "take over the files that another program kept of the same cloud",
        operands: .init(names: ["FOLDER", "INTO"], minimum: 1),
        options: [
            Option(long: "trust-dates", summary: "size and date tell enough where the source gives no checksum"),
            Option(long: "add", summary: "bring in what only FOLDER has, and what differs beside what is there"),
            Option(long: "dry-run", summary: "say what would be done, and do nothing"),
        ],
        details: """
            FOLDER is what another sync tool kept of what INTO, a folder in a mount (the working directory), shows. A file of
            FOLDER whose place, size and checksum are those of a file that is not on this disk becomes its bytes here, with
            nothing downloaded: shared with FOLDER where the disk can, else copied. FOLDER is only read.

            What differs, what only FOLDER has and what no checksum could be had for is listed, and stays as it is. With --add
            what only FOLDER has comes in as new files; a file that differs comes in as a conflict copy beside the one that is
            there. The command can be ended at any time, and be given again.
            """
    ) { arguments throws(Failure) in
        let adoption = try Adoption(
            arguments.operands[0],
            into: arguments.operands.count > 1 ? arguments.operands[1] : [0x2E],
            trustsDates: arguments.has("trust-dates"),
            adds: arguments.has("add"),
            isTrial: arguments.has("dry-run")
        )
        let report = try adoption.run()
        if arguments.has("json") {
            try JSONOutput.write(report)
        } else {
            report.write(isTrial: arguments.has("dry-run"))
        }
        return report.failures.isEmpty ? 0 : 1
    }
}

/// What `cove adopt` says at its end.
struct AdoptionReport: Encodable {
    /// Files whose bytes are here now.
    var adopted = 0
    /// Their bytes.
    var adoptedBytes: Int64 = 0
    /// Files that were here already.
    var present = 0
    /// Files of which nothing tells whether they are the same.
    var unverified: [String] = []
    /// Files with other bytes.
    var differing: [String] = []
    /// What only the folder has.
    var onlyThere: [String] = []
    /// What came in, by the names that it has now.
    var added: [String] = []
    /// What could not be done, and why.
    var failures: [String: String] = [:]

    func write(isTrial: Bool) {
        let terminal = Terminal.standardOutput
        for (list, words) in [
            (differing, "differs"), (onlyThere, "only there"), (unverified, "no checksum to compare"), (added, "added"),
        ] {
            for name in list { terminal.write("\(ItemText.padded(words, 22))  \(terminal.safe(name))\n") }
        }
        for (name, why) in failures.sorted(by: { $0.key < $1.key }) { Tool.report(Failure(name, why)) }
        terminal.write(
            "\(adopted) \(isTrial ? "would be adopted" : "adopted") (\(Units.size(adoptedBytes))), \(present) here already, "
                + "\(unverified.count) without a checksum, \(differing.count) different, \(onlyThere.count) only there, "
                + "\(added.count) added\n"
        )
    }
}
