internal import CoveCore
internal import CoveEngine
internal import CoveMount
internal import CoveProviders
internal import Glibc

/// How a plan becomes the parts of a daemon.
extension Daemon {
    static func configuration(_ plan: MountPlan) -> EngineConfiguration {
        var configuration = EngineConfiguration(
            account: plan.account,
            source: plan.shownSource,
            mountpoint: plan.mountpoint,
            stateDirectory: plan.stateDirectory,
            hostName: hostName
        )
        if NetworkSource(plan.source)?.isExposed == true { configuration.sourceNotes = [NetworkSource.exposure] }
        // What belongs to somebody's own cloud is not written about there.
        configuration.sharesReferences = !ProviderFactory.isProgram(plan.source)
        configuration.socketPath = plan.socket
        configuration.coordinationSocketPath = plan.coordinationSocket
        let size = plan.options.cacheSize ?? plan.settings.cacheSize.flatMap { CacheSize($0) }
        configuration.cacheLimit = size?.bytes(onDiskOf: plan.stateDirectory)
        configuration.ignoredNames = (plan.settings.ignore ?? []) + plan.options.ignore
        configuration.noMaterialize = plan.settings.noMaterialize ?? ConfigFile.indexers
        if plan.settings.thumbnails ?? true {
            configuration.makesThumbnails = true
            configuration.cacheFolder = BaseDirectories.cache
            configuration.fileManagers = plan.settings.fileManagers ?? ConfigFile.fileManagers
        }
        if let time = plan.options.settleTime { configuration.settleTime = time }
        if let time = plan.options.stallLimit { configuration.stallLimit = time }
        if let generation = plan.options.generation { configuration.generation = generation }
        if let time = plan.options.pollInterval { configuration.pollInterval = time }
        if let time = plan.options.openTimeout { configuration.openTimeout = time }
        if let time = plan.options.presenterTimeout { configuration.presenterTimeout = time }
        if let count = plan.options.keptVersions { configuration.keptVersions = count }
        configuration.isReadOnly = plan.options.isReadOnly
        configuration.user = geteuid()
        configuration.group = getegid()
        return configuration
    }

    static func mountOptions(_ plan: MountPlan) -> MountOptions {
        var options = MountOptions(fileSystemName: "cove:\(plan.account)")
        options.isReadOnly = plan.options.isReadOnly
        options.allowsOtherUsers = plan.options.allowsOtherUsers
        options.passesThrough = plan.options.passesThrough
        options.extra = plan.options.forMount
        return options
    }

    /// `st_dev` of the mount, from the mount table: asking the mount itself would be asking this process.
    static func device(of plan: MountPlan) -> UInt64 {
        guard let mount = (try? MountTable.read())?.last(where: { $0.isCove && $0.path == plan.mountpoint }) else {
            return 0
        }
        let major = UInt64(mount.majorDevice)
        let minor = UInt64(mount.minorDevice)
        // gnu_dev_makedev(3)
        return (major & 0xFFFF_F000) << 32 | (major & 0xFFF) << 8 | (minor & 0xFFFF_FF00) << 12 | (minor & 0xFF)
    }

    static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, 255) == 0 else { return "this device" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
