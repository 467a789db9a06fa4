/// Every command there is: help, completions, the manual and the parser all read this one table.
enum CommandTable {
    /// All commands, in the order help shows them.
    static let all: [Command] = [
        mount, unmount, upgrade, login, status, list, info, query, thumbnail, publish, ubiquitousOn, ubiquitousOff,
        adopt,
        accountExport, accountMigrate, accountErase, download, evict, pin, unpin, exclude, include, policy, sync,
        appRegister, appList, appRemove, containerCreate, containerList, containerURL, containerPublish, containerHide,
        run, pick, referenceList, referenceRemove, grantList, grantRevoke, bookmarkCreate, bookmarkResolve,
        pause,
        resume,
        conflicts, coordinate, claims,
        versionsList, versionsShow, versionsRestore, versionsResolve, versionsRemove, trashList, trashRestore,
        trashEmpty, actionList, actionRun, providerList, providerEnable, providerDisable, providerLog, providerCheck,
        providerNew,
        providerServe, trace, statistics, doctor, completions, manual, version, help,
        daemon, announcer, notifier, mountState, claimSpeed,
    ]

    /// Those for people.
    static var visible: [Command] { all.filter { !$0.isHidden } }

    /// The command of that name.
    static func command(_ name: String) -> Command? { all.first { $0.name == name } }

    /// The commands whose first word is the name and that have a second one.
    static func family(_ name: String) -> [Command] { visible.filter { $0.name.hasPrefix(name + " ") } }

    /// The first words of commands with two.
    static var familyNames: [String] {
        var names: [String] = []
        for command in visible {
            let words = command.name.split(separator: " ")
            if words.count > 1, !names.contains(String(words[0])) { names.append(String(words[0])) }
        }
        return names
    }
}
