internal import CoveClaims
public import CoveCore

/// How fast the claim table is, for `mount-scripts/bench`.
public enum ClaimSpeed {
    /// How long so many claims take that nobody contends for, with their ends, on a thousand files in turn.
    public static func measure(count: Int) -> TimeSpan {
        var table = ClaimTable()
        let session = table.beginSession(.answers)
        let paths = (0..<1000).map { number in
            ["Documents", "Folder \(number % 10)", "File \(number)"].map { name in
                PathStep(name: FileName(unchecked: Array(name.utf8)))
            }
        }
        let start = System.monotonic()
        for number in 0..<count {
            let request = ClaimRequest(
                session: session,
                items: [WantedItem(path: paths[number % paths.count], use: .write(nil))],
                needsSettling: false
            )
            let claim = table.request(request, now: start)
            table.release(claim, now: start)
            _ = table.takeEffects()
        }
        return System.monotonic() - start
    }
}
